"""Language models as games: players are documents, and an evaluation fine-tunes one adapter on a coalition."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from fgsv.game import Game
from fgsv.types import Floats, Ints, Masks
from fgsv.utilities.adapters.layers import AdaptedModel, adapt
from fgsv.utilities.adapters.memory import check_asked, fit_on_gpu, saved_bytes
from fgsv.utilities.adapters.plan import n_steps
from fgsv.utilities.adapters.stacks import check_settings, in_stacks
from fgsv.utilities.adapters.training import AdamW, Course, fine_tune
from fgsv.utilities.language.network import (
    PLAIN,
    Compiled,
    Network,
    check_apart,
    load,
    projections,
    register_plain_attention,
    tokenizer_digest,
    use_plain_attention,
    weights_digest,
)
from fgsv.utilities.language.read_texts import Domains, check_per, divisors, read_documents, read_tests
from fgsv.utilities.language.tokens import Reader, Sequences, sequences_of_documents, sequences_of_tests
from fgsv.utilities.row_sets import as_masks

CONTEXT = 1024
"""Default limit on the tokens of a sequence, if the model takes as many."""
MOST_ADAPTERS = 512
"""Trained at once; more would not use a GPU better."""
MOST_COMPILED = 64
"""Trained at once by compiled code, whose steps always take a whole stack, done or not."""
MOST_SEQUENCES = 4096
"""Scored at once, of all adapters together."""
CPU_ADAPTERS = 64
"""Trained at once on a CPU."""
CPU_BYTES = 2**29
"""What their backward pass may keep there."""
CPU_TOKENS = 2**14
"""Scored at once on a CPU."""
RECORDED_STEPS = 48
"""On a GPU, shorter trainings are not recorded: a recording takes as long as four steps of each width."""
COMPILATION = 60.0
"""Seconds that compilation takes on a GPU."""
SAVING = 1e-10
"""Seconds that it saves for each token, layer and hidden dimension."""


@dataclass(frozen=True)
class Settings:
    """How a coalition is fine-tuned and scored."""

    rank: int
    alpha: float
    targets: tuple[str, ...]
    learning_rate: float
    schedule: str
    """Learning rate: `constant`, or `linear`, falling to zero over a coalition's own steps."""
    epochs: int | None
    steps: int | None
    """Steps of every coalition, instead of epochs, with which they grow with its tokens."""
    batch: int
    context: int
    training_seeds: int
    per: str
    dtype: str
    seed: int

    def __post_init__(self) -> None:
        check_settings(self, ("rank", "epochs", "steps", "batch", "training_seeds"))
        if self.context < 2:
            raise ValueError(f"context must be at least 2 tokens, got {self.context}")
        check_per(self.per)


class FineTuned:
    """U(S): the log-likelihood of test texts under the model fine-tuned on S; `fine_tuned` returns a game of it."""

    def __init__(
        self,
        network: Network,
        reader: Reader,
        documents: Sequences,
        domains: Domains,
        players: bytes,
        settings: Settings,
        *,
        compiles: bool,
        adapters_at_once: int | None,
    ) -> None:
        self.network = network
        self.settings = settings
        self.documents = documents
        self.tests = sequences_of_tests(reader, domains, settings.context)
        self.divisors = divisors(self.tests.n_counted, domains, settings.per)
        """(q,) what the log-likelihood of a domain is divided by: tokens, or bytes and log 2."""
        self.players = players
        """16 bytes for each player."""
        self.compiles = compiles
        """Whether full stacks of adapters are trained by compiled code."""
        self.adapted: AdaptedModel = adapt(
            network.model, rank=settings.rank, alpha=settings.alpha, targets=settings.targets
        )
        check_apart(network, self.adapted)
        self.n_players = len(players) // 16
        self._asked = adapters_at_once
        self._tokens = documents.tokens.to(self.adapted.device)
        self._counted = documents.counted.to(self.adapted.device)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        if self.network.model.config._attn_implementation == PLAIN:
            register_plain_attention()  # this may be a worker, in which no model was loaded

    @property
    def outputs(self) -> int:
        """Number of outputs, q."""
        return len(self.divisors)

    @cached_property
    def adapters_at_once(self) -> int:
        """Number of adapters trained at once."""
        if self.adapted.device.type == "cuda":
            most = MOST_COMPILED if self.compiles and self._asked is None else MOST_ADAPTERS
            count = fit_on_gpu("adapters", self._train_some, 1, self.adapted.device, self._asked, most)
            # a batch of coalitions is then made of whole stacks
            return 1 << (count.bit_length() - 1) if self.compiles and self._asked is None else count
        if self._asked is not None:
            return self._asked
        each = saved_bytes(lambda: self._train_some(1), self.adapted.model)
        return max(1, min(CPU_ADAPTERS, CPU_BYTES // max(1, each)))

    @cached_property
    def sequences_at_once(self) -> int:
        """Number of test sequences scored at once, of all adapters together."""
        if self.adapted.device.type == "cuda":
            return fit_on_gpu("sequences", self._score_some, 4, self.adapted.device, None, MOST_SEQUENCES)
        return max(1, CPU_TOKENS // self.tests.length)

    @cached_property
    def _compiled(self) -> Compiled:
        return Compiled.of(self.network)

    def cost(self, sizes: Ints) -> ArrayLike:
        """Return the cost of an evaluation in tokens of a forward pass; a training step counts three times."""
        settings = self.settings
        samples = np.ceil(np.asarray(sizes) * (len(self.documents) / self.n_players)).astype(np.int64)
        steps = n_steps(samples, settings.epochs or 1, settings.batch, settings.steps)
        trained = 3 * settings.batch * self.documents.length * steps
        return np.asarray(settings.training_seeds * (trained + self.tests.tokens.numel()), dtype=float)

    def __call__(self, masks: Masks) -> Floats:
        """Return (m,) or (m, q) log-likelihoods of (m, n) coalitions."""
        samples = as_masks(masks, self.n_players)[:, self.documents.owner]
        values = in_stacks(samples, self._mean_score, self.adapters_at_once, self.outputs)
        return values[:, 0] if self.outputs == 1 else values

    def _mean_score(self, samples: Masks) -> Floats:
        """Return the (B, q) utilities of coalitions of sequences, (B, N): the mean over training seeds."""
        n_seeds = self.settings.training_seeds
        return np.asarray(sum(self.score(self.train(samples, number)) / n_seeds for number in range(n_seeds)))

    def train(self, samples: Masks, number: int = 0) -> torch.Tensor:
        """Train and return the (B, P) adapters of coalitions of sequences, (B, N), with the seed of this number."""
        settings = self.settings
        seed = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
        falling = settings.schedule == "linear"
        orders = self._orders(seed)
        course = Course(self.adapted.initial(seed), orders, settings.batch, settings.steps, falling)
        compiled = self._compiled if self.compiles and len(samples) == self.adapters_at_once else None
        longest = n_steps(samples.sum(axis=1), len(orders), settings.batch, settings.steps).max(initial=0)
        on_gpu = self.adapted.device.type == "cuda"
        return fine_tune(
            self.adapted,
            samples,
            course,
            AdamW(settings.learning_rate),
            partial(self.network.losses, compiled=compiled),
            self._inputs,
            record=on_gpu and compiled is None and longest >= RECORDED_STEPS,
            fixed=compiled is not None,
        )

    def score(self, weights: torch.Tensor | None) -> Floats:
        """Return the (B, q) utilities of (B, P) adapters, or of the model without any (B = 1)."""
        count = 1 if weights is None else len(weights)
        values = np.zeros((count, self.outputs))
        # sorted by length, so that little is padded; the pieces do not depend on the coalitions
        lengths = self.tests.counted.sum(dim=1).numpy()
        rows = np.argsort(lengths, kind="stable")
        size = min(self.sequences_at_once, len(rows))
        at_once = max(1, self.sequences_at_once // size)
        for first in range(0, len(rows), size):
            piece = rows[first : first + size]
            for start in range(0, count, at_once):
                stack = None if weights is None else weights[start : start + at_once]
                found = self._score(stack, piece)
                np.add.at(values[start : start + at_once].T, self.tests.owner[piece], found.T)
        return values / self.divisors

    def describe(self) -> str:
        """Describe in words what is evaluated, and how."""
        settings = self.settings
        model = self.adapted.model
        size = sum(weight.numel() for weight in model.parameters()) / 1e6
        length = f"{settings.steps} steps" if settings.epochs is None else f"{settings.epochs} epochs"
        grows = "the same for every coalition" if settings.epochs is None else "steps grow with the tokens"
        cut = f" ({self.documents.n_cut} were cut at the context)" if self.documents.n_cut else ""
        lines = [
            f"{type(model).__name__}, {size:.3g}M parameters, {settings.dtype}: LoRA of rank {settings.rank}, alpha "
            f"{settings.alpha:g}, on {len(self.adapted.layers)} layers",
            f"training: {length} ({grows}), AdamW {settings.learning_rate:g} {settings.schedule}, batch "
            f"{settings.batch} x {self.documents.length} tokens"
            + (f", mean of {settings.training_seeds} trainings" if settings.training_seeds > 1 else ""),
            f"players: {self.n_players}{cut}, {int(self.documents.n_counted.sum())} tokens in "
            f"{len(self.documents)} sequences",
            f"score: {'log-likelihood per token' if settings.per == 'token' else 'minus bits per byte'} of "
            f"{int(self.tests.n_counted.sum())} tokens" + (f" in {self.outputs} domains" if self.outputs > 1 else ""),
        ]
        return "\n".join(lines)

    def _inputs(self, samples: torch.Tensor, _: torch.Tensor, valid: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._tokens[samples], self._counted[samples], valid

    def _orders(self, seed: int) -> Ints:
        """Return the order of the sequences in each epoch.

        It follows from a sequence's own content, so that the others of a coalition come in the same order whatever
        players the game has beside them.
        """
        settings = self.settings
        owner = self.documents.owner
        if settings.epochs is not None:
            n_epochs = settings.epochs
        else:
            assert settings.steps is not None
            n_epochs = math.ceil(settings.steps / math.ceil(int(np.bincount(owner).min()) / settings.batch))
        digests = np.frombuffer(self.players, dtype="<u8").reshape(-1, 2)[:, 0][owner]
        numbers = np.arange(len(owner)) - np.searchsorted(owner, owner)  # within the player
        contents = _mixed(digests + _mixed(numbers.astype(np.uint64)))
        epochs = _mixed(np.arange(n_epochs, dtype=np.uint64) + np.uint64(seed << 20))
        return np.argsort(_mixed(contents + epochs[:, None]), axis=1, kind="stable")

    def _score(self, weights: torch.Tensor | None, rows: Ints) -> Floats:
        """Return the (B, len(rows)) log-likelihoods of some of the test sequences."""
        counted = self.tests.counted[rows]
        length = int(counted.any(dim=0).nonzero().max()) + 2
        tokens = self.tests.tokens[rows][:, :length].to(self.adapted.device)
        counted = counted[:, :length].to(self.adapted.device)
        count = 1 if weights is None else len(weights)
        with self.adapted.using(weights):
            found = self.network.log_likelihood(tokens.repeat(count, 1)).view(count, *tokens.shape)
        return (found * counted).sum(dim=2).double().cpu().numpy()

    def _train_some(self, count: int) -> None:
        """Take a training step of `count` adapters, to measure its memory."""
        samples = np.zeros((count, len(self.documents)), dtype=bool)
        samples[:, : self.settings.batch] = True
        order = np.arange(len(self.documents))[None]
        course = Course(self.adapted.initial(0), order, self.settings.batch, steps=1)
        fine_tune(self.adapted, samples, course, AdamW(), self.network.losses, self._inputs)

    def _score_some(self, count: int) -> None:
        """Score `count` sequences with one adapter, to measure their memory."""
        rows = np.argsort(-self.tests.counted.sum(dim=1).numpy(), kind="stable")
        self._score(self.adapted.initial(0)[None], np.resize(rows[:1], count))


def fine_tuned(
    documents: Sequence[str | Sequence[str]],
    tests: Mapping[str, Sequence[str | tuple[str, str]]],
    *,
    model: Any,
    tokenizer: Any = None,
    rank: int = 8,
    alpha: float = 16.0,
    targets: str | Sequence[str] | None = None,
    learning_rate: float = 5e-4,
    schedule: Literal["constant", "linear"] = "constant",
    epochs: int | None = None,
    steps: int | None = None,
    batch: int = 4,
    context: int | None = None,
    training_seeds: int = 1,
    per: Literal["token", "byte"] = "token",
    dtype: Literal["float32", "bfloat16"] = "float32",
    device: str | torch.device | None = None,
    compile: bool | Literal["auto"] = "auto",
    evaluations: int = 1000,
    adapters_at_once: int | None = None,
    seed: int = 0,
) -> Game:
    """Return the game in which a coalition of documents is worth what a language model learns from them.

    U(S) is the mean log-likelihood per token of test texts, or minus their bits per byte, under the model with a LoRA
    adapter that was trained on the documents of S; U(0) is that of the model itself. One training serves all domains
    of tests. All coalitions have the same initial adapter and the same order of texts, which depends on the texts
    alone. A coalition has the same value in any batch but for rounding, as sums may be taken in another order.

    Args:
        documents: A text, or several, for each player.
        tests: Domain -> texts, or pairs of a prompt and an answer, of which the answer is scored. Each domain is an
            output; one alone has no name.
        model: A causal language model of transformers (an object is copied), its folder, or its name on the hub.
        tokenizer: That of the model; an object needs it, a folder or a name has its own.
        rank: Rank of the adapters.
        alpha: Their scale: an adapter adds alpha / rank times its product.
        targets: Ends of the names of linear layers to adapt, in a list or with + between them. Default: all but the
            output head.
        learning_rate: Of AdamW.
        schedule: "constant", or "linear": falling to zero over a coalition's own steps.
        epochs: A coalition is trained for so many, so that steps grow with its tokens. Default: 3, without `steps`.
        steps: Instead of epochs, the same number of steps for every coalition: this gives different values.
        batch: Sequences in a mini-batch.
        context: Tokens at which a text is cut. Default: 1,024, or the model's own limit.
        training_seeds: U is the mean over so many trainings with other initial adapters and orders.
        per: "token": log-likelihood per token; "byte": minus the bits per byte.
        dtype: "float32" or "bfloat16", of the frozen model.
        device: Default: CUDA if there is a GPU.
        compile: Whether full stacks of adapters are trained by compiled code, on a GPU. "auto" compiles where a run
            of so many `evaluations` will save more time than compilation takes.
        evaluations: Length of the run that "auto" expects.
        adapters_at_once: Coalitions trained at once. Default: as many as fit into the memory of the GPU.
        seed: Of the initial adapters and the order of texts.

    Returns:
        The game, with one output for each domain; `game.function` is a `FineTuned`.

    Raises:
        ValueError: A setting, a text or the model cannot be used; nothing was trained.

    """
    players = read_documents(documents)
    domains = read_tests(tests)
    if epochs is not None and steps is not None:
        raise ValueError("epochs and steps exclude each other: give one of them")
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if where.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(where)!r} was requested, but torch finds no CUDA GPU here; use device='cpu'")
    epochs = 3 if epochs is None and steps is None else epochs
    limit = CONTEXT if context is None else context
    settings = Settings(  # before the model is loaded, which takes longest
        rank, alpha, (), learning_rate, schedule, epochs, steps, batch, limit, training_seeds, per, dtype, seed
    )
    check_asked(adapters_at_once)
    loaded, tokenizer = load(model, tokenizer, dtype, where)
    most = getattr(loaded.config, "max_position_embeddings", None) or getattr(loaded.config, "n_positions", None)
    context = min(CONTEXT, most or CONTEXT) if context is None else context
    if most is not None and context > most:
        raise ValueError(f"context must be from 2 to {most} tokens, got {context}")
    targets = targets.split("+") if isinstance(targets, str) else targets
    found = tuple(targets) if targets is not None else projections(loaded)
    head = next((name for name, module in loaded.named_modules() if module is loaded.get_output_embeddings()), "")
    if any(head == target or head.endswith("." + target) for target in found):
        raise ValueError(f"the output head {head!r} cannot be adapted: name other layers as targets")
    settings = replace(settings, targets=found, context=context)
    reader = Reader(tokenizer, loaded.get_input_embeddings().weight.shape[0])
    sequences = sequences_of_documents(reader, players, context)
    frame = {
        "utility": "log-likelihood under a fine-tuned language model",
        "model": weights_digest(loaded),
        "tokenizer": tokenizer_digest(tokenizer),
        "settings": repr(asdict(settings)),
        "tests": hashlib.sha256(repr(list(domains.items())).encode()).hexdigest(),
    }
    use_plain_attention(loaded, context)
    n_tokens = evaluations * training_seeds * _mean_tokens(sequences, settings)
    layers, hidden = (getattr(loaded.config, name, 0) for name in ("num_hidden_layers", "hidden_size"))
    saved = SAVING * n_tokens * layers * hidden
    compiles = where.type == "cuda" and (saved > 2 * COMPILATION if compile == "auto" else bool(compile))
    utility = FineTuned(
        Network.of(loaded),
        reader,
        sequences,
        domains,
        b"".join(map(_digest, players)),
        settings,
        compiles=compiles,
        adapters_at_once=adapters_at_once,
    )
    return Game(
        utility,
        len(players),
        outputs=tuple(domains) if len(domains) > 1 else None,
        cost=utility.cost,
        batch_size=512,
        frame=frame,
        players=utility.players,
    )


def _mean_tokens(sequences: Sequences, settings: Settings) -> float:
    """Return the tokens, padding included, that half of the players are trained on."""
    steps = n_steps(np.array([len(sequences) // 2]), settings.epochs or 1, settings.batch, settings.steps)
    return float(steps[0]) * settings.batch * sequences.length


def _digest(texts: Sequence[str]) -> bytes:
    """Return 16 bytes for the texts of a player."""
    return hashlib.sha256(repr(list(texts)).encode()).digest()[:16]


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, the same for the same number: the finaliser of splitmix64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
