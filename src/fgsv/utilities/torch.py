"""Neural networks: many copies of a torch module trained at once, one for each coalition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from fgsv.checks import whole_number
from fgsv.coalitions import Coalitions
from fgsv.game import GameError
from fgsv.packages import how_to_install
from fgsv.types import Floats, Masks
from fgsv.utilities.data import Data, Given, Kind, NullSampler
from fgsv.utilities.fingerprint import fingerprint
from fgsv.utilities.outputs import Output, check_batched
from fgsv.utilities.row_sets import CHUNK_BYTES, RowSets
from fgsv.utilities.scores import Need, Predictions
from fgsv.utilities.seeds import FreshSeeds, TrainingSeeds, check_training_seeds
from fgsv.utilities.utility import Learner, Utility, build

try:
    import torch
    from torch.func import functional_call, vmap
    from torch.nn.functional import cross_entropy, mse_loss
except ImportError:
    raise ImportError(f"fgsv.utilities.torch needs torch: {how_to_install('torch')}") from None

TEST_ROWS = 1024
"""Test rows that the copies predict at once; the last block has up to twice as many."""
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(b, C) outputs and (b,) targets -> (b,) losses, one for each row."""
Optimizer = Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]
"""Parameters -> an optimiser that updates each number by itself: `partial(torch.optim.SGD, lr=0.1)`."""


@dataclass(frozen=True, eq=False)
class Copies:
    """A module trained once for each set of rows, with all sets of a chunk in one stacked network.

    In each step every row gets a random number, the same for all coalitions, and a coalition's mini-batch is its
    members with the smallest numbers. Mini-batches are thus uniform without replacement, and coalitions that share
    members share most of their batches. Sets no larger than a batch train on all their rows.
    """

    module: torch.nn.Module
    tester: torch.nn.Module
    """The module in evaluation mode."""
    loss: Loss
    optimizer: Optimizer
    X: torch.Tensor
    """(n + 1, ...) rows; the last one, of zeros, pads lists."""
    y: torch.Tensor
    X_test: torch.Tensor
    n_classes: int
    n_steps: int
    batch_size: int
    n_copies: int
    seed: int
    seeds: FreshSeeds | None = None
    """If each set has its own seed: for its mini-batches and, from `start`, its initial weights."""
    start: Callable[[int], torch.nn.Module] | None = None

    name: ClassVar[str] = "copies of a torch module trained at once"
    lists_members: ClassVar[bool] = True

    @property
    def own_code(self) -> list[type]:
        """The classes whose code the training runs, for the fingerprint."""
        modules = [*self.module.modules(), *(self.loss.modules() if isinstance(self.loss, torch.nn.Module) else ())]
        return sorted({type(each) for each in modules}, key=lambda each: (each.__module__, each.__qualname__))

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes that are set aside for each set, so that a chunk has `n_copies` sets, and none for their rows."""
        return CHUNK_BYTES // self.n_copies, 0

    def predict(self, sets: RowSets, needs: frozenset[Need]) -> Predictions:
        """Train a copy on every set and predict the test points."""
        filler = len(self.X) - 1
        members = torch.as_tensor(sets.explicit().table(filler), device=self.X.device)
        parameters = self.train(members, self._seeds(sets))
        predicted = self._tested(parameters)
        diverged = ~np.isfinite(predicted).reshape(len(sets), -1).all(axis=1)
        if diverged.any():
            raise GameError(
                f"training diverged for {int(diverged.sum())} coalitions of this batch, "
                f"the smallest of {int(sets.sizes[diverged].min())} rows: try a smaller learning rate"
            )
        fitted = np.ones(len(sets), dtype=bool)
        if not self.n_classes:
            return Predictions(fitted, values=predicted.reshape(len(sets), -1))
        return Predictions(
            fitted,
            labels=predicted.argmax(axis=2),
            probabilities=softmax(predicted, axis=2),
            ranks=predicted[:, :, 1] - predicted[:, :, 0] if "ranks" in needs else None,
        )

    def _tested(self, parameters: dict[str, torch.Tensor]) -> Floats:
        """Return what each copy makes of the test rows, in blocks, so that the memory of layers does not grow."""
        cuts = list(range(TEST_ROWS, len(self.X_test) - TEST_ROWS + 1, TEST_ROWS))  # a short block would round anew
        with torch.no_grad():
            blocks = [
                vmap(lambda own, rows=rows: functional_call(self.tester, own, (rows,)))(parameters).double().cpu()
                for rows in self.X_test.tensor_split(cuts)
            ]
        return torch.cat(blocks, dim=1).numpy()

    def _seeds(self, sets: RowSets) -> list[int]:
        """Return a seed for each set, or one for all of them."""
        if self.seeds is None:
            return [self.seed]
        listed = sets.explicit()
        return [self.seeds.of(rows) for rows in np.split(listed.listed, listed.starts[1:-1])]

    def train(self, members: torch.Tensor, seeds: Sequence[int]) -> dict[str, torch.Tensor]:
        """Train a copy on each row of (m, L) members; return the parameters, stacked along the first axis."""
        starts = [self.module] if self.start is None else [self.start(seed).to(self.X.device) for seed in seeds]
        stacks = zip(*(each.named_parameters() for each in starts), strict=True)
        parameters = {
            stack[0][0]: torch.stack([start.detach() for _, start in stack])
            .expand(len(members), *stack[0][1].shape)
            .clone()
            .requires_grad_()
            for stack in stacks
        }
        optimizer = self.optimizer(parameters.values())
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        devices = [self.X.device] if self.X.is_cuda else []
        with torch.random.fork_rng(devices=devices):  # the same dropout for all coalitions; the global state stays
            torch.manual_seed(self.seed)
            for _ in range(self.n_steps):
                rows = self._batch(members, generators)
                losses = self._losses(parameters, rows)
                counted = (rows < len(self.X) - 1).to(losses.dtype)
                optimizer.zero_grad()
                means = (losses * counted).sum(dim=1) / counted.sum(dim=1)
                torch.autograd.backward(means.sum())  # each copy's gradient is that of its own mean
                optimizer.step()
        return {name: stacked.detach() for name, stacked in parameters.items()}

    def _batch(self, members: torch.Tensor, generators: Sequence[torch.Generator]) -> torch.Tensor:
        """Return the (m, b) rows of one step."""
        if members.shape[1] <= self.batch_size:
            return members
        draws = torch.stack([torch.rand(len(self.X), generator=generator) for generator in generators])
        draws[:, -1] = 2  # the row that pads lists comes after all others
        draws = draws.to(self.X.device).expand(len(members), -1).gather(1, members)
        chosen = draws.topk(self.batch_size, dim=1, largest=False, sorted=False).indices
        return members.gather(1, chosen)

    def _losses(self, parameters: dict[str, torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        """Return the (m, b) losses of each copy on its own rows."""

        def forward(own: dict[str, torch.Tensor], inputs: torch.Tensor) -> Any:
            return functional_call(self.module, own, (inputs,))

        outputs = vmap(forward, randomness="same")(parameters, self.X[rows])
        flat = outputs.reshape(rows.numel(), *outputs.shape[2:])
        if not self.n_classes:
            flat = flat.reshape(-1)
        return self.loss(flat, self.y[rows].reshape(-1)).reshape(rows.shape)


@dataclass(frozen=True, eq=False)
class TorchUtility:
    """The mean over replicates that differ only in their seed: expected performance (paper, section 3.5.1)."""

    replicates: tuple[Utility, ...]

    @property
    def n_players(self) -> int:
        """Number of players: rows, or units."""
        return self.replicates[0].n_players

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """Names of the outputs; None for a single score."""
        return self.replicates[0].outputs

    @property
    def fingerprint(self) -> str | None:
        """A hash of the data, the module with its initial weights, the loss, the optimiser and the seeds."""
        return fingerprint("replicates", [replicate.fingerprint for replicate in self.replicates])

    @property
    def batch_size(self) -> int:
        """Number of coalitions that are best evaluated in one call: enough to form chunks of about equal sizes."""
        learner: Any = self.replicates[0].learner
        return 8 * int(learner.n_copies)

    def __call__(self, masks: ArrayLike) -> Floats:
        """Evaluate the coalitions in the rows of an (m, n) boolean array: (m,), or (m, q) for several outputs."""
        return np.mean([replicate(masks) for replicate in self.replicates], axis=0)

    def evaluate_lists(self, coalitions: Coalitions) -> Floats:
        """Evaluate coalitions given as lists: (m,), or (m, q) for several outputs."""
        return np.mean([replicate.evaluate_lists(coalitions) for replicate in self.replicates], axis=0)

    @property
    def retrain(self) -> Callable[[int], Callable[[Masks], ArrayLike]] | None:
        """With fresh training seeds: k = 1, 2, ... -> the same game by other seeds."""
        parts = [replicate.retrain for replicate in self.replicates]
        if parts[0] is None:
            return None
        return lambda k: TorchUtility(tuple(retrain(k) for retrain in parts))  # type: ignore[misc]

    def describe(self) -> str:
        """Describe in words what is evaluated, and how."""
        return f"{self.replicates[0].describe()}\nmean of {len(self.replicates)} trainings"


def torch_utility(
    module: torch.nn.Module | Callable[[], torch.nn.Module],
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    scoring: Any = None,
    *,
    loss: Loss | None = None,
    optimizer: Optimizer,
    n_steps: int,
    batch_size: int = 32,
    n_replicates: int = 1,
    n_copies: int = 64,
    device: str | torch.device | None = None,
    units: Any = None,
    empty: Any = None,
    min_size: int | None = None,
    null: str | NullSampler | None = None,
    per_test_point: bool = False,
    seed: int = 0,
    training_seeds: TrainingSeeds = "fixed",
) -> TorchUtility:
    """Return the game in which a coalition of training rows is worth the score of a network trained on them.

    The same seed gives the same bits on one type of CPU and for one batch; another batch shape changes last bits,
    which training may amplify and replicates average out.

    Args:
        module: A module, whose weights every training starts from, or a callable that returns one, for new initial
            weights in each replicate. It maps (b, ...) rows to (b, C) outputs if y has C classes, and to (b, 1) or
            (b,) if y has floats. It must not have batch normalisation, which keeps statistics over steps.
        X: (n, ...) training rows: an array or a tensor of numbers.
        y: (n,) their labels: floats for a regression, anything else for classes.
        X_test: (t, ...) test rows.
        y_test: (t,) their labels.
        scoring: A batched score by name (`fgsv.utilities.scores.SCORES`), or several. Default: accuracy or r2.
        loss: (b, C) outputs and (b,) targets -> (b,) numbers. Default: cross entropy or squared error.
        optimizer: Takes parameters, as `partial(torch.optim.Adam, lr=1e-3)` does; it must update each number by
            itself, as all but L-BFGS and Muon do.
        n_steps: Steps in which every coalition is trained.
        batch_size: Rows of a mini-batch.
        n_replicates: Trainings with other seeds, over which the worth of a coalition is averaged.
        n_copies: Coalitions that are trained at once.
        device: Default: CUDA if there is a GPU.
        units: (n,) labels; rows with the same one are one player.
        empty: Worth of a coalition without rows. Default: the score of the best constant.
        min_size: Rows to which small coalitions are padded with uninformative ones.
        null: What these are: "shuffle", or a callable (X, y, size, rng) -> (X, y).
        per_test_point: Whether the score at each test point is an output.
        seed: Of initial weights, mini-batches, dropout and padding.
        training_seeds: "fresh": every coalition has mini-batches and, where `module` is a callable, initial weights
            of its own, from a hash of `seed` and its rows; dropout stays the same for all. See `fgsv.utility`.

    Raises:
        ValueError, TypeError: An argument is wrong, or the module does not fit the rows; nothing was trained.

    Examples:
        >>> from functools import partial
        >>> X = np.linspace(-1, 1, 20).reshape(10, 2)
        >>> y = np.arange(10) // 5
        >>> sgd = partial(torch.optim.SGD, lr=0.5)
        >>> game = torch_utility(lambda: torch.nn.Linear(2, 2), X, y, X, y, optimizer=sgd, n_steps=20)
        >>> game(np.ones((1, 10), dtype=bool)).tolist()
        [1.0]

    """
    counts = {"n_steps": n_steps, "batch_size": batch_size, "n_replicates": n_replicates, "n_copies": n_copies}
    for name, number in counts.items():
        whole_number(name, number, least=1)
    if not callable(optimizer):
        raise TypeError(
            "optimizer must be a function of parameters, such as functools.partial(torch.optim.SGD, lr=0.1), got "
            f"{type(optimizer).__name__}"
        )
    fresh = check_training_seeds(training_seeds)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    X, y, X_test, y_test = (_as_numpy(array) for array in (X, y, X_test, y_test))
    classifier = np.asarray(y).dtype.kind != "f"

    def learner_of(
        own_seed: int, start: torch.nn.Module, data: Data, scored: Sequence[Output], _: int
    ) -> tuple[Learner, str, Any]:
        if not data.is_dense:
            raise ValueError("torch_utility needs X to be a dense array of numbers")
        check_batched(scored)
        # Fingerprints contain these losses by module, name and code: to edit them is to lose existing ledgers.
        own_loss = loss or (_cross_entropies if data.n_classes else _squares)
        dtype = next(start.parameters()).dtype
        rows, test_rows = (torch.as_tensor(array, dtype=dtype, device=where) for array in data.features())
        labels = torch.as_tensor(data.y, dtype=torch.int64 if data.n_classes else dtype, device=where)
        makes = fresh and not isinstance(module, torch.nn.Module)
        learner = Copies(
            module=deepcopy(start).to(where).train(),
            tester=deepcopy(start).to(where).eval(),
            loss=own_loss,
            optimizer=optimizer,
            X=torch.cat([rows, torch.zeros_like(rows[:1])]),
            y=torch.cat([labels, torch.zeros_like(labels[:1])]),
            X_test=test_rows,
            n_classes=data.n_classes,
            n_steps=n_steps,
            batch_size=batch_size,
            n_copies=n_copies,
            seed=own_seed,
            seeds=FreshSeeds.of_data(data, own_seed) if fresh else None,
            start=partial(_start, module) if makes else None,
        )
        _try_out(learner)
        weights = {name: value.cpu().numpy() for name, value in start.state_dict().items()}
        is_module = isinstance(own_loss, torch.nn.Module)  # hashed by its class and its repr
        content = [type(own_loss), repr(own_loss)] if is_module else own_loss
        return learner, "", [repr(start), weights, content, optimizer, n_steps, batch_size, own_seed]

    given = Given(X, y, X_test, y_test, scoring, units, empty, min_size, null, per_test_point, seed)
    replicates = []
    for replicate in range(n_replicates):
        own_seed = int(np.random.SeedSequence([seed, replicate]).generate_state(1)[0])
        start = _start(module, own_seed)
        kind = Kind(type(start).__name__, classifier, takes_tensors=True)
        replicates.append(build(kind, partial(learner_of, own_seed), start, given))
    return TorchUtility(tuple(replicates))


def _as_numpy(array: Any) -> Any:
    return array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else array


def _start(module: torch.nn.Module | Callable[[], torch.nn.Module], seed: int) -> torch.nn.Module:
    """Return the module that all trainings of a replicate start from."""
    if isinstance(module, torch.nn.Module):
        start = deepcopy(module)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            start = module()
        if not isinstance(start, torch.nn.Module):
            raise TypeError(f"module must be a torch module or return one, got {type(start).__name__}")
    if not list(start.parameters()):
        raise ValueError(f"module has no parameters to train: {type(start).__name__}")
    for layer in start.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"module has a {type(layer).__name__}, which keeps statistics over steps; copies trained at once "
                "cannot: use LayerNorm or GroupNorm"
            )
    return start


def _cross_entropies(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return cross_entropy(outputs, targets, reduction="none")


def _squares(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return mse_loss(outputs, targets, reduction="none")


def _try_out(learner: Copies) -> None:
    """Pass two rows through the module and the loss, to raise errors about shapes before any training."""
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            outputs = learner.tester(learner.X[:2])
        except RuntimeError as error:
            shape = tuple(learner.X[:2].shape)
            raise ValueError(f"module cannot take X: it fails on two rows, of shape {shape}: {error}") from error
        expected = (2, learner.n_classes) if learner.n_classes else (2, 1)
        if tuple(outputs.shape) != expected and not (not learner.n_classes and tuple(outputs.shape) == (2,)):
            each = f"each of the {learner.n_classes} classes" if learner.n_classes else "each row"
            raise ValueError(
                f"module returns shape {tuple(outputs.shape)} for 2 rows, expected {expected}: a number for {each}"
            )
        losses = learner.loss(outputs if learner.n_classes else outputs.reshape(-1), learner.y[:2])
        if tuple(losses.shape) != (2,):
            raise ValueError(
                f"loss returns shape {tuple(losses.shape)} for 2 rows, expected (2,): one number for each row, "
                "as torch.nn.CrossEntropyLoss(reduction='none') returns"
            )
