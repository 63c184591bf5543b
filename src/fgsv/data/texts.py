"""Texts: from documents to a game, in one call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from fgsv.checks import check_type
from fgsv.data.dataset import Dataset
from fgsv.data.documents import Documents, TestText, prepare_texts
from fgsv.data.facts import sentences
from fgsv.data.folders import PROVIDER, read_folder
from fgsv.data.folds import ASKED, folds_of, known_roughly, only_monte_carlo, too_few
from fgsv.data.joining import read_all
from fgsv.data.leaks import warnings_of_test_texts
from fgsv.data.metrics import LEAST_OF_TEXT
from fgsv.data.players import warnings_of_names
from fgsv.data.reading import TableError, TableFile
from fgsv.data.roles import Roles, SharedUnits
from fgsv.data.source import Source
from fgsv.partition import Partition
from fgsv.types import Floats, Masks
from fgsv.utilities import language
from fgsv.utilities.language.read_texts import words_of
from fgsv.words import option

if TYPE_CHECKING:
    from fgsv.audit.copies import Copies

NGRAM = "ngram"
"""The name of the model that is used if none is chosen."""
UNSTATED = ("tokenizer", "base", "device", "compile", "evaluations", "adapters_at_once")
"""Settings that a result does not state: objects, texts, and settings that change no value."""
SCORES = {"token": "log-likelihood per token", "byte": "minus bits per byte"}


@dataclass(frozen=True, eq=False, repr=False)
class Texts(Dataset):
    """Texts as a game of documents or units: `fgsv.value(texts.game, texts.partition)` values it."""

    noun: ClassVar[str] = "document"
    least_gain: ClassVar[float] = LEAST_OF_TEXT
    rows: Documents
    build: Callable[..., Any]
    """From the documents of players to the game of these players, with the same model and (unless given) `tests`."""

    @property
    def twin(self) -> Any:
        """The n-gram model of the same documents and tests, to be a network's `proxy=` in `fgsv.value`."""
        return language.ngram(self.rows.by_player(), self.rows.tests)

    def game_of(self, rows: Masks) -> Any:
        """Return the game of those training documents that a mask selects."""
        return self.build(self.rows.by_player(rows))

    def game_of_units(self, units: Any) -> Any:
        """Return the game of the same documents with other units; None: each document is a player."""
        players = replace(self.rows.players, units=units)
        return self.build(replace(self.rows, players=players).by_player())

    def copies(self) -> Copies:
        """Return which documents several providers have, with the passages that others share."""
        from fgsv.audit.text_audit import copies_of_texts  # here: an audit stands above data

        return copies_of_texts(self.rows, self.row_owners())

    def facts_of(self, owners: Partition) -> dict[str, str]:
        """Return a sentence about each owner: its documents, their length, and equal ones."""
        lengths = np.array([len(str(text)) for text in self.rows.texts], dtype=float)
        equal = {"equal to another provider's document": self.equal_rows[0]}
        return sentences(owners, self.noun, equal, {"characters a document": lengths})

    def cheaper_evaluations(self) -> list[str]:
        """Return what would make evaluations cheaper, in words."""
        return ["the n-gram model, which is the default"]

    def describe_player(self, player: int) -> tuple[str, str]:
        """Return a player's name and the first words of its first document."""
        return self.rows.describe_player(player)


def open_text(
    path: Any,
    *,
    text: str = "text",
    group: str | Sequence[str] = (),
    regroup: str | Sequence[str] = "",
    unit: str | None = None,
    unit_size: int | None = None,
    max_players: int | None = None,
    test: Any = None,
    test_fraction: float = 0.25,
    test_by: str | None = None,
    split_seed: int = 0,
    output_by: str | None = None,
    prompt: str | None = None,
    model: Any = None,
    training: Mapping[str, Any] | None = None,
    group_missing: str | None = None,
    text_missing: Literal["drop"] | None = None,
    shared_units: SharedUnits | None = None,
    ignore: str | Sequence[str] = "",
    monte_carlo_only: bool = False,
    encoding: str = "utf-8",
    seed: int = 0,
    registered: str | None = None,
) -> Texts:
    """Read texts and return the game of their documents: `fgsv.value(texts.game, texts.partition)` values it.

    A row is a document and a player. The scores without each of ten random folds of the test texts are further
    outputs, from which intervals hold the error of the test texts, as in `open_table`.

    Args:
        path: What `open_table` takes, including a `datasets.Dataset`; or a folder with one subfolder per provider and
            one document per file.
        text: Column of texts, in place of a target: value documents with a language model.
        group: As in `open_table`.
        regroup: As in `open_table`.
        unit: As in `open_table`.
        unit_size: As in `open_table`.
        max_players: As in `open_table`.
        test: As in `open_table`.
        test_fraction: As in `open_table`.
        test_by: As in `open_table`.
        split_seed: As in `open_table`.
        output_by: Column with the domains of the test texts; each domain is an output.
        prompt: Column with the prompt that precedes each test text.
        model: Folder or hub name of a causal language model, which is fine-tuned for each coalition. In Python also
            the model, as `fgsv.utilities.language.fine_tuned` takes it. Default: an n-gram model, which needs no GPU.
        training: Settings of the model, such as steps=100,rank=16, or order=2 for the n-gram model. In Python a
            mapping.
        group_missing: As in `open_table`.
        text_missing: Rows without a text: drop leaves them out.
        shared_units: As in `open_table`.
        ignore: Columns to leave out; in a folder of texts, files: '*.png' of every provider, 'Acme/a.txt' of one.
        monte_carlo_only: As in `open_table`.
        encoding: As in `open_table`.
        seed: As in `open_table`.
        registered: As in `open_table`.

    Returns:
        The texts, with their `game`, the `partition` of its players by provider, and their `source`.

    Raises:
        TableError, ValueError, TypeError: The file or an argument is wrong; nothing was evaluated.

    Examples:
        >>> import pandas as pd
        >>> body = ["the cat sat", "a dog ran", "a cat ran", "the dog sat"]
        >>> rows = pd.DataFrame({"body": body, "by": ["a", "b"] * 2})
        >>> texts = open_text(rows, text="body", group="by", test=[rows[:1]])
        >>> texts.partition.names, texts.game.n_players
        (('a', 'b'), 4)

    """
    given = {name: argument for name, argument in locals().items() if name not in ("path", "test")}
    if test is not None and test_by is not None:
        raise TableError(f"give the test texts with {option('test')} or {option('test_by')}, not both")
    for name in ("text", "encoding", "output_by", "prompt"):
        if given[name] is not None or name in ("text", "encoding"):
            check_type(given[name], str, f"a text as {option(name)}")
    check_type(training or {}, Mapping, f"a mapping from names to settings as {option('training')}")
    make, words, score = _model(model, dict(training or {}))
    roles = Roles.of(given)
    kept = [*roles.as_written, *(name for name in (text, output_by, prompt) if name)]
    read = partial(_read, roles=roles, text=kept, encoding=encoding)
    file = read(path)
    tested = None if test is None else read(test)
    for name in () if file.by_file == PROVIDER else roles.ignore:
        file.column(name, "to ignore")
    roles = roles.of_file(file)
    rows = prepare_texts(
        file, roles, text=text, text_missing=text_missing, test=tested, output_by=output_by, prompt=prompt
    )
    n_tests = min(map(len, rows.tests.values()))
    why = ASKED if monte_carlo_only else too_few(n_tests, "test texts")
    tested_by = [only_monte_carlo(why)] if why else known_roughly(n_tests, "test texts")
    build = partial(make if why else partial(_with_folds, make), tests=rows.tests)
    game = build(rows.by_player())
    source = Source.of(
        file,
        tested,
        game,
        rows,
        roles,
        rows=len(rows.texts),
        test_rows=len(rows.test_texts),
        columns={"text": text, "output": output_by},
        task="text",
        model=words,
        metric=score,
        notes=[*_described(rows, game, words, score), *tested_by],
        opened_with=given if _is_plain(model, *(training or {}).values()) else None,
    )
    warnings = (*warnings_of_test_texts(rows), *rows.warnings, *warnings_of_names(rows.players.partition.names))
    made = Texts(game=game, rows=rows, source=source, build=build, by_folder=rows.by_folder)
    return replace(made, warnings=(*warnings, *made.equal_rows[1]))


@dataclass(frozen=True, eq=False)
class OnFolds:
    """Scores on all test texts, and without each fold of them, as weighted sums of the scores on the folds."""

    parts: Callable[[Masks], Any]
    """(m, n) coalitions -> (m, P) scores on the folds of each domain."""
    weights: Floats
    """(P, q + F)"""

    def __call__(self, masks: Masks) -> Floats:
        """Return (m, q + F): the scores of q domains on all of their texts, and then without each fold."""
        return np.asarray(self.parts(masks) @ self.weights)


def _with_folds(
    make: Callable[..., Any], documents: Sequence[Sequence[str]], tests: Mapping[str, Sequence[TestText]]
) -> Any:
    """Return the game of documents whose last outputs are the scores without each fold of the test texts."""
    parts: dict[str, list[TestText]] = {}
    places: list[tuple[int, int]] = []
    for domain, (name, texts) in enumerate(tests.items()):
        folds = folds_of([repr(text).encode("utf-8", "surrogatepass") for text in texts])
        for fold in np.unique(folds).tolist():
            parts[f"{name}, fold {fold}"] = [
                text for text, number in zip(texts, folds, strict=True) if number == fold
            ]
            places.append((domain, fold))
    game = make(documents, tests=parts)
    domain_of, fold_of = np.array(places).T
    within = (domain_of[:, None] == np.arange(len(tests))).astype(float) * game.function.divisors[:, None]
    sums = [within, *(within * (fold_of != fold)[:, None] for fold in range(int(fold_of.max()) + 1))]
    weights = np.concatenate([each / each.sum(axis=0) for each in sums], axis=1)
    n_folds = weights.shape[1] - len(tests)
    outputs = tuple(tests) if len(tests) > 1 else None
    return replace(game, function=OnFolds(game.function, weights), outputs=outputs, n_folds=n_folds)


def _model(model: Any, training: dict[str, Any]) -> tuple[Callable[..., Any], str, str]:
    """Return what makes a game of documents and `tests`, and its model and score in words."""
    make: Callable[..., Any]
    if model is None or model == NGRAM:
        make = language.ngram
        fixed = {}
        name = "n-gram model"
    else:
        make = language.fine_tuned
        fixed = {"model": model}
        name = f"{model if isinstance(model, str) else type(model).__name__}, fine-tuned by LoRA"
    own = inspect.signature(make).parameters
    allowed = [each for each in own if each not in ("documents", "tests", *fixed)]
    unknown = [each for each in training if each not in allowed]
    if unknown:
        raise TableError(f"unknown training setting {unknown[0]!r} of the {name}: it has {', '.join(allowed)}")
    settings = {each: training.get(each, own[each].default) for each in allowed if each not in UNSTATED}
    words = ", ".join(f"{each}={setting}" for each, setting in settings.items() if setting is not None)
    score = SCORES.get(settings["per"], str(settings["per"]))
    return partial(make, **fixed, **training), f"{name} ({words})", score


def _is_plain(*arguments: Any) -> bool:
    """Say whether all arguments are small enough to be stated in a result, and not objects."""
    return all(each is None or isinstance(each, str | int | float) for each in arguments)


def _read(given: Any, roles: Roles, text: Sequence[str], encoding: str) -> TableFile:
    """Read a folder of texts, or what a table may be."""
    one = given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given
    if isinstance(one, (str, Path)) and Path(one).is_dir():
        return read_folder(one, ignore=roles.ignore, encoding=encoding)
    return read_all(given, group=roles.group, ignore=roles.ignore, text=text, encoding=encoding)


def _described(rows: Documents, game: Any, words: str, score: str) -> list[str]:
    """Return what is valued and how, in plain words; a network describes itself."""
    counts = [len(words_of(text)) for text in rows.texts]
    players = f"{len(counts):,} documents"
    if rows.players.units is not None:
        players = f"{rows.players.partition.n_players:,} units of {players}"
    domains = [f"{domain} ({len(texts)})" for domain, texts in rows.tests.items()]
    outputs = [f"outputs, with their numbers of test texts: {', '.join(domains)}"] if len(domains) > 1 else []
    model = game.function.parts if isinstance(game.function, OnFolds) else game.function
    describe = getattr(model, "describe", None)
    how = [f"model: {words}", f"score: {score}"] if describe is None else describe().splitlines()
    return [f"players: {players}, {sum(counts):,} words", *how, *outputs]
