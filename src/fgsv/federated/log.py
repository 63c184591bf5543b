"""The log of a federated run: what the server sent and got back in each round, in files that anyone can check."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from fgsv.checks import as_number, as_texts, check_type, whole_number
from fgsv.files import as_path, other_schema, read_json, writable_folder
from fgsv.packages import optional
from fgsv.types import Floats
from fgsv.words import some

Arrays = dict[str, NDArray[Any]]
"""A model, or the change of one: its arrays by name."""
Player = tuple[str, str]
"""A client's name, and the name of its shard: empty if the client is one player."""
SCHEMA = 1
MANIFEST = "manifest.json"
LONGEST_NAME = 150
"""Bytes of a file name that a client's name may take."""
HIDING = ("secagg", "secureaggregation", "homomorphic", "encrypt", "differentialprivacy")


class LogError(ValueError):
    """A log of rounds cannot be read or continued; the message names the round and the client."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a federated run."""

    number: int
    before: Arrays
    """The global model that was sent to the clients."""
    players: tuple[Player, ...]
    updates: tuple[Arrays, ...]
    """What each player changed: differences from the global model."""
    weights: Floats
    """(k,) the weight of each player in the aggregate."""
    aggregation: str
    run: str
    rounding: float
    """The relative error of the changes as they are logged."""

    @property
    def active(self) -> list[Player]:
        """The players who changed something: without the others, every coalition has the same model."""
        changed = (any(array.any() for array in update.values()) for update in self.updates)
        return [player for player, changes in zip(self.players, changed, strict=True) if changes]


class RoundLog:
    """The log of a federated run, in a folder: what each client changed in each round.

    In the folder of a round, such as round-0001, global.safetensors is the global model, client-NAME.safetensors what
    a client sent, and manifest.json has their hashes and weights. It gets its name when it is complete: a run that is
    killed leaves whole rounds, and at most a folder whose name begins with a dot, which nothing reads.

    Args:
        folder: Folder of the log; the first round that is written creates it.
        run: Name of the run, which every round has, so that rounds of two runs are never mixed. Default: a new one.
            Give the same name to continue a run.
        aggregation: How the server aggregates: "FedAvg" or "FedProx" for the mean weighted by `weights`.
        settings: Settings of the aggregation, kept for the record.
        layers: Names of the arrays that are logged, `*` for any characters: `["*lora*"]` for adapters. Default: all.
        float16: Whether to log clients' changes in half precision, which takes half the space or less.

    Raises:
        ValueError, TypeError: An argument is wrong, or the aggregation hides the updates.

    Examples:
        >>> log = RoundLog("rounds", run="first")
        >>> log
        RoundLog('rounds')

    """

    def __init__(
        self,
        folder: str | Path,
        *,
        run: str | None = None,
        aggregation: str = "FedAvg",
        settings: Mapping[str, Any] | None = None,
        layers: Sequence[str] | None = None,
        float16: bool = False,
    ) -> None:
        self.folder = as_path(folder, "folder")
        check_type(aggregation, str, "a text as aggregation")
        if any(word in aggregation.lower().replace("_", "") for word in HIDING):
            raise ValueError(
                f"contributions need each client's own update, and {aggregation} hides it: secure aggregation, "
                "encryption and noise cannot be valued"
            )
        self.run = secrets.token_hex(8) if run is None else run
        check_type(self.run, str, "a text as run")
        self.aggregation = aggregation
        self.settings = dict(settings or {})
        self.layers = None if layers is None else as_texts(layers, "layers", "names of arrays")
        self.float16 = float16

    def __repr__(self) -> str:
        return f"RoundLog({str(self.folder)!r})"

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that are complete, in order."""
        names = (path.name.partition("-") for path in self.folder.glob("round-*"))
        return sorted(int(number) for _, _, number in names if number.isdecimal())

    def write(
        self,
        global_arrays: Mapping[str, Any],
        updates: Mapping[Any, Mapping[str, Any]],
        weights: Mapping[Any, float],
        *,
        number: int | None = None,
        difference: bool = False,
    ) -> Path:
        """Write a round: all of it, or nothing.

        Args:
            global_arrays: The global model that the clients were sent: arrays by name.
            updates: What each client sent back: arrays by name. A key is the client's name, or (client, shard).
            weights: The weight of each of them, 0 or more; the number of its rows for FedAvg.
            number: The round's number. Default: the next one.
            difference: Whether updates are differences from the global model, rather than models.

        Returns:
            The folder of the round.

        Raises:
            LogError, TypeError: Something is missing or does not fit; the message names the client.

        """
        number = (self.rounds or [0])[-1] + 1 if number is None else whole_number("number", number, least=0)
        before = self._logged(global_arrays)
        if not before:
            raise LogError(f"round {number} has no global model: no array to log")
        changes = {_player(key): self._update(number, key, before, update) for key, update in updates.items()}
        weighed = _weighed(number, list(updates), weights)
        if difference or self.float16:
            changes = {
                player: self._differences(number, player, before, arrays, difference)
                for player, arrays in changes.items()
            }
        target = writable_folder(self.folder) / f"round-{number:04}"
        if target.exists():
            raise LogError(f"{self.folder} has a round {number} already: log this run in another folder")
        self.check_run()
        files = {player: _file_of(player) for player in changes}
        if len({name.casefold() for name in files.values()}) < len(files):
            raise LogError(f"round {number} has two clients whose names differ in nothing but upper and lower case")
        part = self.folder / f".{target.name}.{secrets.token_hex(8)}.part"
        part.mkdir()
        try:
            entries = [
                {
                    "client": player[0],
                    "shard": player[1],
                    "file": files[player],
                    "sha256": _save(part / files[player], arrays),
                    "weight": weight,
                }
                for (player, arrays), weight in zip(changes.items(), weighed, strict=True)
            ]
            manifest = {
                "schema": SCHEMA,
                "run": self.run,
                "round": number,
                "updates": "difference" if difference or self.float16 else "full",
                "aggregation": {"name": self.aggregation, "settings": self.settings},
                "global": {"file": "global.safetensors", "sha256": _save(part / "global.safetensors", before)},
                "clients": entries,
            }
            _write(part / MANIFEST, json.dumps(manifest, indent=1, allow_nan=False).encode())
            part.rename(target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        return target

    def read(self, number: int) -> Round:
        """Read a round, and check every file against its hash.

        Raises:
            LogError: A file is missing or damaged, or does not fit; the message names the round and the client.

        """
        manifest = self._manifest(number)
        before = self._load(number, "the global model", manifest["global"])
        if not before:
            raise LogError(f"round {number} has no global model: its file has no array")
        updates, roundings = [], []
        for entry in manifest["clients"]:
            who = f"client {entry['client']!r:.100}"
            arrays = self._load(number, who, entry)
            _check_shapes(number, who, before, arrays)
            roundings += [np.finfo(array.dtype).eps for array in arrays.values() if array.dtype.kind == "f"]
            change = {name: array.astype(float) for name, array in arrays.items()}
            if manifest["updates"] == "full":
                change = {name: array - before[name] for name, array in change.items()}
            for name, array in change.items():
                if not np.isfinite(array).all():
                    raise LogError(f"round {number}: {who} sent numbers in {name!r:.100} that are not finite")
            updates.append(change)
        players = tuple((entry["client"], entry["shard"]) for entry in manifest["clients"])
        weights = _weighed(
            number,
            list(players),
            {player: entry["weight"] for player, entry in zip(players, manifest["clients"], strict=True)},
        )
        return Round(
            number,
            before,
            players,
            tuple(updates),
            np.array(weights),
            manifest["aggregation"]["name"],
            manifest["run"],
            max(roundings, default=0.0),
        )

    def digest(self, number: int) -> str:
        """Return the hash of a round's manifest, which has those of its files."""
        return hashlib.sha256((self.folder / f"round-{number:04}" / MANIFEST).read_bytes()).hexdigest()

    def check_run(self) -> None:
        """Raise an error if the folder has rounds of another run."""
        if self.rounds and (other := self._manifest(self.rounds[-1])["run"]) != self.run:
            raise LogError(
                f"{self.folder} is the log of another run, {other!r:.100}: choose another folder, or give "
                "run= to continue that run"
            )

    def _manifest(self, number: int) -> Any:
        """Return the manifest of a round: what it must have is there, and of the right type."""
        path = self.folder / f"round-{number:04}" / MANIFEST
        try:
            manifest = read_json(path)
            if manifest["schema"] != SCHEMA:
                raise LogError(f"round {number}: {other_schema(manifest['schema'], SCHEMA)}")
            texts = [manifest["run"], manifest["aggregation"]["name"], manifest["global"]["sha256"]]
            texts += [entry[name] for entry in manifest["clients"] for name in ("client", "shard", "file", "sha256")]
            if not all(isinstance(text, str) for text in texts) or manifest["updates"] not in ("full", "difference"):
                raise TypeError("a field has another type")
        except FileNotFoundError:
            raise LogError(f"round {number} is not in {self.folder}: there is no file {path}") from None
        except LogError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"{path} is not the manifest of a round: {error!r:.200}") from None
        return manifest

    def _load(self, number: int, who: str, entry: Mapping[str, str]) -> Arrays:
        """Return the arrays of a file, or raise an error that says whose file is missing or damaged."""
        path = self.folder / f"round-{number:04}" / Path(entry["file"]).name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise LogError(f"round {number}: the file of {who} is missing: {error.strerror} ({path})") from None
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise LogError(f"round {number}: the file of {who} is damaged, it is not what was logged ({path})")
        try:
            return dict(_safetensors().load(content))
        except Exception as error:  # the package has an error type of its own
            raise LogError(f"round {number}: the file of {who} cannot be read: {error} ({path})") from None

    def _logged(self, arrays: Mapping[str, Any]) -> Arrays:
        """Return the arrays that are logged."""
        check_type(arrays, Mapping, "a mapping from names to arrays")
        wanted = ["*"] if self.layers is None else self.layers
        kept = {
            str(n): np.asarray(a, order="C") for n, a in arrays.items() if any(fnmatchcase(str(n), w) for w in wanted)
        }
        if arrays and not kept:
            raise LogError(f"no array is one of the layers {some(wanted)}: there are {some(arrays)}")
        return kept

    def _update(self, number: int, key: Any, before: Arrays, arrays: Mapping[str, Any]) -> Arrays:
        """Return what a client sent, checked against the global model."""
        logged = self._logged(arrays)
        _check_shapes(number, f"client {key!r:.100}", before, logged)
        return logged

    def _differences(
        self, number: int, player: Player, before: Arrays, arrays: Arrays, is_difference: bool
    ) -> Arrays:
        """Return what a client changed, in the precision in which it is logged."""
        changes = {}
        for name, array in arrays.items():
            change = array if is_difference else array.astype(float) - before[name]
            kind = np.float16 if self.float16 else before[name].dtype
            if before[name].dtype.kind == "f":
                with np.errstate(over="ignore"):
                    change = change.astype(kind)
            if np.isinf(change).any() and np.isfinite(array).all():
                raise LogError(
                    f"round {number}: client {player[0]!r:.100} changed {name!r} by more than float16 holds"
                )
            changes[name] = change
        return changes


def _player(key: Any) -> Player:
    """Return the client and the shard that a key of `updates` names."""
    client, shard = key if isinstance(key, tuple) and len(key) == 2 else (key, "")
    for text in (client, shard):
        check_type(text, str, "the name of a client, or (client, shard), as key of updates")
    if not client:
        raise LogError("a client's name is empty")
    return client, shard


def _file_of(player: Player) -> str:
    """Return the name of a player's file, in which no character of theirs means anything."""
    name = "client-" + "+".join(quote(part, safe="", errors="surrogatepass") for part in player if part)
    if len(name) > LONGEST_NAME:
        raise LogError(f"the name of client {player[0]!r:.100} is too long for a file")
    return f"{name}.safetensors"


def _weighed(number: int, keys: list[Any], weights: Mapping[Any, Any]) -> list[float]:
    """Return the weights of these clients, or raise an error for what is no weight."""
    if not keys:
        raise LogError(f"round {number} has no client's update")
    check_type(weights, Mapping, "a mapping from clients to weights")
    if missing := [key for key in keys if key not in weights]:
        raise LogError(f"round {number} has no weight of client {missing[0]!r:.100}")
    weighed = [as_number(weights[key]) for key in keys]
    for key, weight in zip(keys, weighed, strict=True):
        if not 0 <= weight < np.inf:
            raise LogError(
                f"round {number}: the weight of client {key!r:.100} must be 0 or more, got {weights[key]!r:.50}"
            )
    if not sum(weighed):
        raise LogError(f"round {number}: the weights of all clients are zero")
    return weighed


def _check_shapes(number: int, who: str, before: Arrays, arrays: Arrays) -> None:
    """Raise an error unless the arrays have the names, the shapes and numbers of the global model."""
    if arrays.keys() != before.keys():
        other = some(sorted(arrays.keys() ^ before.keys()))
        raise LogError(f"round {number}: {who} and the global model have different arrays: {other}")
    for name, array in arrays.items():
        if array.shape != before[name].shape:
            raise LogError(
                f"round {number}: {name!r:.100} of {who} has shape {array.shape}, of the global model "
                f"{before[name].shape}"
            )
        if array.dtype.kind not in "biuf":
            raise LogError(f"round {number}: {name!r:.100} of {who} does not hold numbers, but {array.dtype}")


def _safetensors() -> Any:
    return optional("safetensors.numpy", "logs of rounds", "flower")


def _save(path: Path, arrays: Arrays) -> str:
    """Write arrays to a file; return its hash."""
    content = _safetensors().save(arrays)
    _write(path, content)
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a file that is on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
