"""Whose code does a small model learn from? Installed open-source projects as providers of text.

A model trained on Python's standard library is fine-tuned on coalitions of pieces of source files. The utility of a
coalition is the log-likelihood per token of held-out files, one output for each project. FSRS comes from one run over
coalitions of pieces, for whole projects and for one that is split in two alike; SRS from the exact GSV of the groups.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers

from experiments.language_model import BaseModel, train_model, train_tokenizer
from experiments.records import find_or_make, say
from experiments.royalties import four_scenarios, report
from experiments.sources import Project, installed_projects, standard_library
from experiments.training import choose_device
from fgsv.utilities.language.fine_tuning import fine_tuned

SPARE_TOKENS = 8
"""A piece of text is so much shorter than its sequences: cut and read again, it may have a few tokens more."""


@dataclass(frozen=True)
class Scale:
    """Numbers of projects and of pieces, the base model, the training, and when the run stops."""

    projects: int = 6
    files: int = 90
    """Files drawn from each project, of which a third is held out."""
    pieces: int = 16
    """Players of each project."""
    sequences: int = 4
    """Sequences of a player, each as long as the context."""
    large: int = 12
    """Players in the larger part of the project that is split."""
    tests: int = 32
    """Held-out sequences of each project."""
    model: BaseModel = field(default_factory=BaseModel)
    epochs: int = 3
    learning_rate: float = 5e-4
    stderr: float = 0.02
    """The run stops when the standard error of every share is at most this, but for the roughest output."""
    budget: int = 4000


FULL = Scale()
SMALL = Scale(
    projects=3,
    files=24,
    pieces=6,
    sequences=6,
    large=4,
    tests=12,
    model=BaseModel(1024, 64, 2, 2, context=64, files=100, sequences=4000, epochs=2, batch=16, rate=4e-3),
    learning_rate=1e-3,
    budget=98,
)
"""Enough to see that the parts work, too little to compare projects."""


def run(
    out: Path = Path("bench-out/code"),
    *,
    device: str = "auto",
    precision: str = "auto",
    small: bool = False,
    adapters: int | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Share among installed projects what a model learns: minutes on a GPU, with --small two or three on a CPU.

    The base model and every evaluation are kept in `out`, where another run finds them. `adapters` are trained at
    once (default: as many as fit), and sampling stops after the first round that ends later than `max_seconds`.
    """
    where, dtype = choose_device(device, precision, small=small)
    transformers.utils.logging.disable_progress_bar()
    scale = SMALL if small else FULL
    scale = replace(scale, model=replace(scale.model, seed=seed))
    projects = installed_projects(scale.projects)
    if len(projects) < 2:
        raise ValueError(
            f"{len(projects)} projects with enough Python files are installed here; the experiment compares at least "
            "two: install numpy, pandas, scikit-learn, matplotlib or rich"
        )
    for each in projects:
        say(f"{each.name} {each.version}, {len(each.texts)} files, licence: {each.licence}")
    model = base_model(out, scale.model, where)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    documents, owners, tests = texts_of(projects, tokenizer, scale, seed)
    game = fine_tuned(
        documents,
        tests,
        model=model,
        epochs=scale.epochs,
        learning_rate=scale.learning_rate,
        context=scale.model.context,
        dtype="bfloat16" if dtype == torch.bfloat16 else "float32",
        device=where,
        evaluations=scale.budget // 4,
        adapters_at_once=adapters,
        seed=seed,
    )
    utility: Any = game.function
    say(utility.describe())
    parts = [
        owner + ("large" if number < scale.large else "small") if owner == owners[0] else owner
        for number, owner in enumerate(owners)
    ]
    results = four_scenarios(
        game,
        owners,
        parts,
        out,
        stderr=scale.stderr,
        spared=1,
        budget=scale.budget,
        seed=seed,
        max_seconds=max_seconds,
    )
    sources = [{"project": each.name, "version": each.version, "licence": each.licence} for each in projects]
    return report(out, "code", results, settings=asdict(scale), sources=sources, game=utility.describe().splitlines())


def base_model(out: Path, sizes: BaseModel, device: torch.device) -> Path:
    """Return the folder of the model trained on the standard library: found again, or trained now."""
    texts = standard_library()
    texts = [texts[k] for k in np.random.default_rng(sizes.seed).permutation(len(texts))[: sizes.files]]

    def train(folder: Path) -> None:
        say(f"training a tokenizer and a model on {len(texts)} files of the standard library")
        tokenizer = train_tokenizer(texts, sizes.vocabulary)
        train_model(texts, tokenizer, sizes, device).save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    content = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return find_or_make(out / "model", f"{sizes} {content}", train)


def texts_of(
    projects: list[Project], tokenizer: Any, scale: Scale, seed: int
) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Return the players' texts, the project of each, and held-out texts by project, from other files."""
    rng = np.random.default_rng(seed)
    window = scale.model.context - 1
    documents: list[str] = []
    owners: list[str] = []
    tests: dict[str, list[str]] = {}
    for project in projects:
        texts = [project.texts[k] for k in rng.permutation(len(project.texts))[: scale.files]]
        held_out = max(1, len(texts) // 3)
        tested = _pieces(texts[:held_out], tokenizer, window - SPARE_TOKENS)
        pieces = _pieces(texts[held_out:], tokenizer, scale.sequences * window - SPARE_TOKENS)
        if len(pieces) < scale.pieces or len(tested) < scale.tests:
            raise ValueError(
                f"{project.name} has {len(pieces)} pieces and {len(tested)} tests; the experiment takes "
                f"{scale.pieces} and {scale.tests}"
            )
        documents += [pieces[k] for k in rng.permutation(len(pieces))[: scale.pieces]]
        owners += [project.name] * scale.pieces
        tests[project.name] = [tested[k] for k in rng.permutation(len(tested))[: scale.tests]]
    return documents, owners, tests


def _pieces(texts: list[str], tokenizer: Any, length: int) -> list[str]:
    """Cut texts into pieces of `length` tokens, and leave the rest of each."""
    read = tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return [
        text[offsets[k][0] : offsets[k + length - 1][1]]
        for text, offsets in zip(texts, read["offset_mapping"], strict=True)
        for k in range(0, len(offsets) - length + 1, length)
    ]
