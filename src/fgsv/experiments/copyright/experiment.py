"""Copyright attribution (paper, section 4.2): royalty shares of four brands from a diffusion model.

A model that knows 23 brands is fine-tuned on coalitions of images of four others. The utility of a coalition
is the log-likelihood of images that the model fine-tuned on everything generated. One run of evaluations
gives FSRS for whole and for split brands alike; SRS takes the exact GSV of the groups.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

try:
    import diffusers
    import matplotlib  # noqa: F401  for the figure: what is lacking is said before anything is trained
    import torch
    import transformers
except ImportError as error:
    raise ImportError(f"{error}: pip install 'fgsv[diffusion,plots]'") from error

import fgsv
from fgsv.experiments.copyright.logos import VALUED, Logos, draw_logos, prompt, read_flickr_logos
from fgsv.experiments.copyright.pretraining import Pretraining, train_autoencoder, train_denoiser
from fgsv.experiments.copyright.royalties import Royalties, clipped, figure, linear, text, write_csv, write_json
from fgsv.experiments.copyright.small_model import SmallModel, build_model
from fgsv.report.folder import INTERRUPTED
from fgsv.types import Floats, Images, Masks
from fgsv.utilities.adapters.layers import adapt, merge
from fgsv.utilities.diffusion.game import DiffusionGame, Settings, TrainingData, fine_tune
from fgsv.utilities.diffusion.model import DiffusionModel, load_model

SPLIT = ("google", "sprite")
"""The brands that are split in two in the second scenario."""


@dataclass(frozen=True)
class Scale:
    """How large the experiment is."""

    per_brand: int = 30
    large: int = 20
    """Images in the larger part of a split brand."""
    generated: int = 20
    """Images for each prompt whose likelihood is the utility."""
    model: SmallModel = field(default_factory=SmallModel)
    pretraining: Pretraining = field(default_factory=Pretraining)
    settings: Settings = field(default_factory=Settings)
    stderr: float = 0.03
    """The run stops when the standard error of every share is at most this."""
    budget: int = 20_000
    """The run stops before it asks for more coalitions than this."""
    round_size: int = 512
    threads: int | None = None
    """Of torch on a CPU, where the tensors are so small that more threads wait for each other."""


FULL = Scale(
    pretraining=Pretraining(autoencoder_steps=2000, steps=3000),
    settings=Settings(learning_rate=3e-3, guidance=2.0, schedule="linear"),
)
"""120 images, four prompts, and the paper's settings but three: the small model learns a brand in 300 steps at a
larger rate than Stable Diffusion's 1e-4, a rate that falls to zero makes the utility smoother, and a guidance of
7.5 drives the colours to their limits. Rounds of 512 end where the estimator's epochs do."""

SMALL = Scale(
    per_brand=6,
    large=4,
    generated=6,
    model=SmallModel(
        image_size=16,
        autoencoder_channels=(16, 32, 32),
        channels=(32, 64),
        text_width=32,
        text_layers=1,
        norm_groups=8,
    ),
    pretraining=Pretraining(
        autoencoder_steps=400, autoencoder_batch=32, autoencoder_rate=4e-3, steps=800, batch=32, rate=2e-3
    ),
    settings=Settings(
        learning_rate=1e-2, epochs=8, schedule="linear", denoising_steps=8, guidance=2.0, trajectories=6
    ),
    budget=98,
    round_size=32,
    threads=1,
)
"""Everything small enough for a CPU in two or three minutes: it shows that the parts work, not how brands compare."""


@dataclass(frozen=True)
class Place:
    """Where a run computes and writes, and whom it tells."""

    out: Path
    device: torch.device
    dtype: torch.dtype
    say: Callable[[str], None]
    seconds: Callable[[], float]
    """Since the run began."""


def run(
    out: str | Path,
    *,
    model: str | None = None,
    images: str | Path | None = None,
    annotation: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
    small: bool = False,
    scale: Scale | None = None,
    adapters_at_once: int | None = None,
    max_seconds: float | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> dict[str, Royalties]:
    """Run the experiment, write shares, figure and images into `out`, and return the four tables.

    `model` is a Stable Diffusion checkpoint and `images` the folder of FlickrLogos-27; without them a small
    model is trained here on logos drawn here. What a run has finished it finds again in `out`: the model, the
    generated images, the evaluations. With `max_seconds` it stops before the round of evaluations that would end
    later.
    """
    if device == "auto" and not torch.cuda.is_available() and scale is None and not small:
        raise ValueError(
            "torch finds no CUDA GPU, and at full size this takes days on a CPU: use --small, or say --device cpu"
        )
    if annotation is not None and images is None:
        raise ValueError("an annotation file was given, but not the folder of its images: use --images")
    scale = scale or (SMALL if small else FULL if model is None else replace(FULL, settings=Settings()))
    scale = replace(
        scale,
        settings=replace(scale.settings, seed=seed),
        pretraining=replace(scale.pretraining, seed=seed),
    )
    where = _place(out, device, precision, quiet)
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()  # bars of milliseconds between the lines of progress
    threads = torch.get_num_threads()
    torch.set_num_threads(scale.threads or threads)
    try:
        return _run(where, scale, model, images, annotation, adapters_at_once, max_seconds)
    finally:
        torch.set_num_threads(threads)


def _run(
    where: Place,
    scale: Scale,
    model: str | None,
    images: str | Path | None,
    annotation: str | Path | None,
    adapters_at_once: int | None,
    max_seconds: float | None,
) -> dict[str, Royalties]:
    base, logos = _base_model(where, scale, model, images, annotation)
    players = logos.only(VALUED, scale.per_brand)
    game = _game(where, scale, base, players, adapters_at_once)
    brands = list(players.brands)
    parts = [
        brand + ("large" if number % scale.per_brand < scale.large else "small") if brand in SPLIT else brand
        for number, brand in enumerate(brands)
    ]
    exact = _exact(where, game, parts)
    valuation = _faithful(where, scale, game, brands, parts, max_seconds)
    return _write(where, scale, game, valuation, exact, parts)


def _place(out: str | Path, device: str, precision: str, quiet: bool) -> Place:
    start = time.monotonic()
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch finds no CUDA GPU here; use --device cpu")
    precisions = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if precision == "auto":
        precision = "bfloat16" if device.startswith("cuda") else "float32"
    if precision not in precisions:
        raise ValueError(f"precision {precision!r} is unknown; expected auto, {' or '.join(precisions)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)

    def seconds() -> float:
        return time.monotonic() - start

    def say(words: str) -> None:
        if not quiet:
            print(f"[{seconds():6.1f} s] {words}", flush=True)

    return Place(folder, torch.device(device), precisions[precision], say, seconds)


def _base_model(
    where: Place, scale: Scale, model: str | None, images: str | Path | None, annotation: str | Path | None
) -> tuple[DiffusionModel, Logos]:
    """Return a model that knows the 23 other brands, from `out/model` where it fits, and all logos."""
    loaded = None if model is None else load_model(model)
    size = scale.model.image_size if loaded is None else loaded.image_size
    if images is None:
        logos = draw_logos(scale.per_brand, size, seed=0)
    else:
        logos = read_flickr_logos(images, annotation, size)
    logos.only(VALUED, scale.per_brand)  # what is lacking is said before anything is trained
    others = sorted(set(logos.brands) - set(VALUED))
    if not others:
        raise ValueError("there are no images of other brands to start from")
    first = logos.only(others)
    made_by = {
        "model": model,
        "images": hashlib.sha256(first.images.tobytes()).hexdigest(),
        "sizes": asdict(scale.model) if model is None else None,
        "training": asdict(scale.pretraining) if model is None else asdict(scale.settings),
    }
    folder, note = where.out / "model", where.out / "model" / "made_by.json"
    made = json.dumps(made_by, sort_keys=True)
    if note.is_file() and note.read_text() == made:
        where.say(f"using the model in {folder}")
        return load_model(folder).to(where.device, where.dtype), logos
    where.say(f"training on {len(first)} images of {len(others)} brands")
    train = _train_small if loaded is None else partial(_tune_checkpoint, model=loaded)
    train(where, scale, first).save(folder)
    note.write_text(made)
    return load_model(folder).to(where.device, where.dtype), logos


def _train_small(where: Place, scale: Scale, logos: Logos) -> DiffusionModel:
    model = build_model(scale.model, scale.pretraining.seed).to(where.device)

    def report(what: str, step: int, steps: int, loss: torch.Tensor) -> None:
        if step % max(1, steps // 5) == 0:
            where.say(f"{what}: step {step} of {steps}, loss {float(loss):.4f}")

    train_autoencoder(model, logos.images, scale.pretraining, report)
    train_denoiser(model, logos.images, [prompt(b) for b in logos.brands], scale.pretraining, report)
    return model


def _tune_checkpoint(where: Place, scale: Scale, logos: Logos, model: DiffusionModel) -> DiffusionModel:
    """Fine-tune a checkpoint on the other brands, as the authors do, by an adapter that is merged into it."""
    model = model.to(where.device, where.dtype)
    adapted = adapt(model.unet, rank=scale.settings.rank, alpha=scale.settings.alpha)
    prompts = [prompt(brand) for brand in logos.brands]
    data = TrainingData.of(model, model.encode(logos.images), prompts, scale.settings)
    everything = np.ones((1, len(logos)), dtype=bool)
    merge(adapted, fine_tune(model, adapted, data, everything, scale.settings)[0])
    return replace(model, unet=adapted.without_adapters())


def _game(
    where: Place, scale: Scale, model: DiffusionModel, players: Logos, adapters_at_once: int | None
) -> DiffusionGame:
    """Return the game of the players' images, whose utility is the likelihood of images generated first."""
    latents = model.encode(players.images)
    queries = {brand: prompt(brand) for brand in VALUED}
    empty = torch.zeros(len(queries), scale.generated, *model.latent_shape)
    arguments = (model, latents, [prompt(brand) for brand in players.brands], queries)
    game = DiffusionGame(*arguments, empty, scale.settings, adapters_at_once=adapters_at_once)

    def generate() -> Floats:
        where.say(f"fine-tuning on all {len(players)} images, generating {scale.generated} images a prompt")
        full = game.adapters(np.ones((1, len(players)), dtype=bool))
        generated = game.generate(full[0], scale.generated, seed=scale.settings.seed + 1000).cpu()
        before = game.generate(None, scale.generated, seed=scale.settings.seed + 1000)
        _contact_sheet(where.out / "generated.png", model.decode(generated.flatten(0, 1)), len(queries))
        _contact_sheet(where.out / "generated_before.png", model.decode(before.flatten(0, 1)), len(queries))
        _contact_sheet(where.out / "players.png", players.images, len(queries))
        return generated.numpy()

    kept = _kept(where, "generated.npz", game.fingerprint, generate)
    game = DiffusionGame(*arguments, torch.as_tensor(kept), scale.settings, adapters_at_once=adapters_at_once)
    where.say(f"{game.room.adapters} adapters and {game.room.trajectories} trajectories at once")
    return game


def _kept(where: Place, name: str, key: str, compute: Callable[[], Floats]) -> Floats:
    """Return what an earlier run computed for the same key and kept in a file, else compute and keep it."""
    path = where.out / name
    if path.is_file():
        with np.load(path) as file:
            if str(file["key"]) == key:
                where.say(f"using {path}")
                found: Floats = file["values"]
                return found
    values = compute()
    part = path.with_name("part-" + name)
    np.savez(part, key=key, values=values)
    part.replace(path)
    return values


def _contact_sheet(path: Path, images: Images, n_rows: int) -> None:
    """Write images as one file, `n_rows` rows of them."""
    from PIL import Image

    height, width = images.shape[1:3]
    rows = images.reshape(n_rows, -1, height, width, 3).transpose(0, 2, 1, 3, 4)
    Image.fromarray(rows.reshape(n_rows * height, -1, 3)).save(path)


def _exact(where: Place, game: Any, parts: list[str]) -> dict[str, fgsv.Valuation]:
    """Return the exact GSV of the K parts, `split`, and of whole brands, `whole`; 2^K evaluations.

    A coalition of whole brands is one of their parts: its utility is looked up.
    """
    grouped = fgsv.grouped(game, parts)
    names = list(dict.fromkeys(parts))
    bits = np.arange(len(names))

    def evaluate() -> Floats:
        where.say(f"evaluating the {2 ** len(names)} coalitions of groups, for SRS")
        return grouped((np.arange(2 ** len(names))[:, None] >> bits) & 1 == 1)

    values = _kept(where, "group_utilities.npz", str(grouped.fingerprint), evaluate)

    def lookup(masks: Masks) -> Floats:
        found: Floats = values[masks @ (1 << bits)]
        return found

    table = fgsv.Game(lookup, len(names), outputs=grouped.outputs)
    whole = [name.removesuffix("large").removesuffix("small") for name in names]
    return {
        "split": fgsv.exact(table, {name: [k] for k, name in enumerate(names)}),
        "whole": fgsv.exact(fgsv.grouped(table, whole)),
    }


def _faithful(
    where: Place,
    scale: Scale,
    game: DiffusionGame,
    brands: list[str],
    parts: list[str],
    max_seconds: float | None,
) -> fgsv.Valuation:
    """Value the images until the error of every share, of whole and of split brands, is small enough.

    A run that is ended from here says why after `interrupted`, as `fgsv verify` cannot derive such an end.
    """
    where.say("sampling coalitions of images, for FSRS")
    before = where.seconds()
    for result in fgsv.iterate(
        game,
        brands,
        budget=scale.budget,
        seed=scale.settings.seed,
        round_size=scale.round_size,
        ledger=where.out / "ledger.db",
    ):
        worst = max(_share_errors(result).max(), _share_errors(result.regroup(parts)).max())
        where.say(f"{result.n_evaluations} evaluations, largest standard error of a share {worst:.4f}")
        now = where.seconds()
        if worst <= scale.stderr:
            return replace(result, stopped=f"{INTERRUPTED}: every share's standard error is at most {scale.stderr:g}")
        if max_seconds is not None and 2 * now - before > max_seconds:
            return replace(result, stopped=f"{INTERRUPTED}: another round would end after {max_seconds:g} seconds")
        before = now
    return result  # of the last round: the budget is spent, or an interrupt came


def _share_errors(result: fgsv.Valuation) -> Floats:
    """Return the (K, q) standard errors of the shares, for the prompts that have something to share."""
    total = np.asarray(result.total)
    errors: Floats = result.stderr[:, total > 0] / total[total > 0]
    return errors if errors.size else np.full((1, 1), np.inf)


def _table(result: fgsv.Valuation, rule: Callable[[Floats], Floats]) -> Royalties:
    """Return the shares of a valuation, (prompts, players); NaN for a prompt with nothing to share."""
    total = np.asarray(result.total)[:, None]
    shares = np.where(total > 0, rule(result.values.T), np.nan)
    errors = np.where(total > 0, result.stderr.T / np.abs(total), np.nan)
    if rule is clipped:
        errors = np.zeros_like(errors)  # none are shown: what clipping does to them is not known
    assert result.outputs is not None
    return Royalties(result.outputs, tuple(map(str, result.names)), shares, errors)


def _write(
    where: Place,
    scale: Scale,
    game: DiffusionGame,
    valuation: fgsv.Valuation,
    exact: dict[str, fgsv.Valuation],
    parts: list[str],
) -> dict[str, Royalties]:
    split = valuation.regroup(parts)
    results = {
        "srs_whole": exact["whole"],
        "srs_split": exact["split"],
        "fsrs_whole": valuation,
        "fsrs_split": split,
    }
    tables = {name: _table(result, linear) for name, result in results.items()}
    clipped_tables = {name: _table(result, clipped) for name, result in results.items()}
    why = valuation.stopped.removeprefix(f"{INTERRUPTED}: ")
    names = list(map(str, split.names))
    of_brand = np.array([[name.startswith(brand) for name in names] for brand in map(str, valuation.names)])
    gap = float(np.abs(of_brand @ split.values - valuation.values).max())
    paid_most = {
        query: {
            name: str(table.players[int(np.argmax(table.shares[q]))])
            for name, table in tables.items()
            if name.endswith("whole") and np.isfinite(table.shares[q]).all()
        }
        for q, query in enumerate(game.outputs)
    }
    write_json(
        tables,
        where.out / "shares.json",
        clipped={name: table.nested() for name, table in clipped_tables.items()},
        gain=dict(zip(game.outputs, np.asarray(valuation.total).tolist(), strict=True)),
        paid_most=paid_most,
        split_minus_whole=gap,
        stopped=why,
        n_evaluations=valuation.n_evaluations,
        seconds=round(where.seconds(), 1),
        settings=asdict(scale),
    )
    write_csv(tables, where.out / "shares.csv")
    valuation.save(where.out / "valuation.json")
    where.say("done\n")
    print(text(tables))
    print("\nlinear shares of U(N) - U(0); ± Monte Carlo error, none for SRS, which is exact")
    for query, gain in zip(game.outputs, np.asarray(valuation.total), strict=True):
        most = ", ".join(f"{name}: {brand}" for name, brand in paid_most[query].items())
        print(f"{query:<12} U(N) - U(0) = {gain:9.4f}; paid most: {most or 'nobody, there is nothing to share'}")
    print(f"parts minus whole, largest difference of FGSV: {gap:.2g}")
    print(f"stopped after {valuation.n_evaluations} evaluations: {why}")
    _draw(where, game, tables, clipped_tables)
    return tables


def _draw(
    where: Place,
    game: DiffusionGame,
    tables: dict[str, Royalties],
    clipped_tables: dict[str, Royalties],
) -> None:
    shown = game.model.decode(game.generated[:, :4].flatten(0, 1))
    shown = shown.reshape(len(game.outputs), -1, *shown.shape[1:])
    images = dict(zip(game.outputs, shown, strict=True))
    figure(tables, where.out / "copyright.png", images=images, note="linear shares of U(N) - U(0)")
    figure(
        clipped_tables,
        where.out / "copyright_clipped.png",
        images=images,
        note="negative values clipped at zero, as the paper's authors do: not faithful",
    )
