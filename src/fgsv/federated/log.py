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

from fgsv.checks import as_texts, check_type, whole_number
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
HIDING = ("secagg", "secureaggregation", "homomorphic", "encrypt", "differentialprivacy")


class LogError(ValueError):
    """A log of rounds cannot be read or continued; the message names the round and the client."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a federated run."""

    number: int
    run: str
    aggregation: str
    before: Arrays
    """The global model that was sent to the clients."""
    players: tuple[Player, ...]
    updates: tuple[Arrays, ...]
    """What each player changed: differences from the global model."""
    weights: Floats
    """(k,) the weight of each player in the aggregate."""
    sha256: str
    """The hash of the manifest, which has those of all files."""


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
        >>> import tempfile
        >>> log = RoundLog(tempfile.mkdtemp())
        >>> _ = log.write({"w": [0.0]}, {"north": {"w": [2.0]}, "south": {"w": [0.0]}}, {"north": 30, "south": 10})
        >>> log.rounds, log.read(1).players
        ([1], (('north', ''), ('south', '')))

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
        check_type(aggregation, str, "a text as aggregation")
        if any(word in aggregation.lower().replace("_", "") for word in HIDING):
            raise ValueError(
                f"contributions need each client's own update, and {aggregation} hides it: secure aggregation, "
                "encryption and noise cannot be valued"
            )
        _safetensors()  # a missing package is reported before the training
        self.folder = as_path(folder, "folder")
        self.run = secrets.token_hex(8) if run is None else str(run)
        self.aggregation = {"name": aggregation, "settings": dict(settings or {})}
        self.layers = ["*"] if layers is None else as_texts(layers, "layers", "names of arrays")
        self.float16 = float16

    @property
    def rounds(self) -> list[int]:
        """The numbers of the rounds that are complete, in order."""
        names = (path.name.partition("-") for path in self.folder.glob("round-*"))
        return sorted(int(number) for _, _, number in names if number.isdecimal())

    def check_run(self) -> None:
        """Raise an error if the folder has rounds of another run."""
        last = [read_json(self.folder / f"round-{number:04}" / MANIFEST) for number in self.rounds[-1:]]
        if other := [manifest["run"] for manifest in last if manifest["run"] != self.run]:
            raise LogError(
                f"{self.folder} is the log of another run, {other[0]!r:.100}: choose another folder, or give run= to "
                "continue that run"
            )

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
        self.check_run()
        number = max(self.rounds, default=0) + 1 if number is None else whole_number("number", number, least=0)
        before = self._logged(number, global_arrays)
        changes = {}
        for key, update in updates.items():
            arrays = self._logged(number, update)
            _check(number, key, before, arrays)
            if self.float16:
                with np.errstate(over="ignore"):
                    arrays = {
                        name: (array if difference else array.astype(float) - before[name]).astype(np.float16)
                        for name, array in arrays.items()
                    }
                _check(number, key, before, arrays)
            client, shard = as_texts(
                key if isinstance(key, tuple) else (key, ""), "a key of updates", "a client and its shard"
            )
            changes[client, shard] = arrays
        weighed = _weighed(number, list(updates), weights)
        target = writable_folder(self.folder) / f"round-{number:04}"
        if target.exists():
            raise LogError(f"{self.folder} has a round {number} already: log this run in another folder")
        part = self.folder / f".{target.name}.{secrets.token_hex(8)}.part"
        part.mkdir()
        try:
            clients = [
                {"client": player[0], "shard": player[1], "weight": weight}
                | _save(
                    part,
                    f"client-{'+'.join(quote(name, safe='') for name in player if name)}.safetensors",
                    _safetensors().save(arrays),
                )
                for (player, arrays), weight in zip(changes.items(), weighed.tolist(), strict=True)
            ]
            manifest = {
                "schema": SCHEMA,
                "run": self.run,
                "round": number,
                "updates": "difference" if difference or self.float16 else "full",
                "aggregation": self.aggregation,
                "global": _save(part, "global.safetensors", _safetensors().save(before)),
                "clients": clients,
            }
            _save(part, MANIFEST, json.dumps(manifest, indent=1).encode())
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
        folder = self.folder / f"round-{number:04}"
        try:
            manifest = read_json(folder / MANIFEST)
            if manifest["schema"] != SCHEMA:
                raise LogError(f"round {number}: {other_schema(manifest['schema'], SCHEMA)}")
            before = self._load(number, "the global model", manifest["global"])
            players = [(str(entry["client"]), str(entry["shard"])) for entry in manifest["clients"]]
            updates = []
            for entry in manifest["clients"]:
                arrays = self._load(number, f"client {entry['client']!r:.100}", entry)
                _check(number, entry["client"], before, arrays)
                start = 1.0 if manifest["updates"] == "full" else 0.0
                updates.append({name: array.astype(float) - start * before[name] for name, array in arrays.items()})
            return Round(
                number=number,
                run=manifest["run"],
                aggregation=manifest["aggregation"]["name"],
                before=before,
                players=tuple(players),
                updates=tuple(updates),
                weights=_weighed(
                    number, players, dict(zip(players, (e["weight"] for e in manifest["clients"]), strict=True))
                ),
                sha256=hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest(),
            )
        except FileNotFoundError:
            raise LogError(f"round {number} is not in {self.folder}: it has no {MANIFEST}") from None
        except LogError:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(f"{folder / MANIFEST} is not the manifest of a round: {error!r:.200}") from None

    def _load(self, number: int, who: str, entry: Mapping[str, str]) -> Arrays:
        """Return the arrays of a file, or raise an error that says whose file is missing or damaged."""
        path = self.folder / f"round-{number:04}" / Path(entry["file"]).name
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise LogError(f"round {number}: the file of {who} is missing, or is not what was logged ({path})")
        return dict(_safetensors().load(content))

    def _logged(self, number: int, arrays: Mapping[str, Any]) -> Arrays:
        """Return the arrays that are logged, or raise an error if there are none."""
        check_type(arrays, Mapping, "a mapping from names to arrays")
        kept = {
            str(name): np.asarray(array, order="C")
            for name, array in arrays.items()
            if any(fnmatchcase(str(name), layer) for layer in self.layers)
        }
        if not kept:
            raise LogError(f"round {number}: a model has no array to log, of {some(arrays) or 'none'}")
        return kept


def _weighed(number: int, keys: Sequence[Any], weights: Mapping[Any, Any]) -> Floats:
    """Return the weights of these clients, or raise an error for what is no weight."""
    try:
        weighed = np.array([float(weights[key]) for key in keys])
    except (KeyError, TypeError, ValueError) as error:
        raise LogError(f"round {number}: weights must have a number for each client: {error!r:.200}") from None
    for key, weight in zip(keys, weighed, strict=True):
        if not 0 <= weight < np.inf:
            raise LogError(f"round {number}: the weight of client {key!r:.100} must be 0 or more, got {weight}")
    if not weighed.any():
        raise LogError(f"round {number}: no client has a weight above zero")
    return weighed


def _check(number: int, client: Any, before: Arrays, arrays: Arrays) -> None:
    """Raise an error unless a client's arrays have the names and shapes of the global model, and finite numbers."""
    who = f"round {number}, client {client!r:.100}"
    if arrays.keys() != before.keys():
        raise LogError(
            f"{who}: the global model has other arrays, they differ in {some(sorted(arrays.keys() ^ before.keys()))}"
        )
    for name, array in arrays.items():
        if array.shape != before[name].shape:
            raise LogError(f"{who}: {name!r:.100} has shape {array.shape}, the global model's {before[name].shape}")
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise LogError(f"{who}: {name!r:.100} ({array.dtype}) holds what is no finite number")


def _safetensors() -> Any:
    return optional("safetensors.numpy", "logs of rounds", "flower")


def _save(folder: Path, name: str, content: bytes) -> dict[str, str]:
    """Write a file that is on the disk when this returns; return its entry in the manifest."""
    with (folder / name).open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}
