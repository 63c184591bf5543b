"""How many adapters fit into GPU memory: measured with two numbers of them, and extrapolated."""

from __future__ import annotations

from collections.abc import Callable

import torch

USABLE = 0.85
"""Fraction of the free memory to plan with; the rest is headroom for fragmentation and other processes."""

ADVICE = "use a smaller batch, another precision or another GPU"


def check_asked(asked: int | None) -> None:
    """Raise an error for a number of adapters at once that is not one."""
    if asked is not None and asked < 1:
        raise ValueError(f"adapters_at_once must be at least 1, got {asked}")


def fit_on_gpu(
    what: str, run: Callable[[int], object], few: int, device: torch.device, asked: int | None, most: int
) -> int:
    """Return how many to handle at once on a GPU, from the memory of `run(few)` and `run(2 * few)`.

    Args:
        what: What is counted, in the plural, for the error.
        run: Handles so many at once.
        few: Number that is tried first.
        device: A CUDA device.
        asked: Number that the user asked for; None: as many as fit.
        most: Number that is never exceeded.

    Raises:
        MemoryError: As many as were asked for, or a single one, do not fit.

    """
    free = int(USABLE * free_memory(device))
    fixed, each = _measured(what, run, few, device)
    fitting = max(0, (free - fixed) // each)
    wanted = asked or 1
    if fitting < wanted:
        raise MemoryError(
            f"{wanted} {what} at once need {_gib(fixed + wanted * each)} GiB of GPU memory, but {_gib(free)} GiB can "
            f"be used; {fitting} {what} would fit" + ("" if fitting else f": {ADVICE}")
        )
    return min(asked or fitting, most)


def _measured(what: str, run: Callable[[int], object], few: int, device: torch.device) -> tuple[int, int]:
    """Return the bytes of a call, whatever the number, and those for each, from its peaks for two numbers.

    If twice as many do not fit, all memory of `few` counts as theirs, and none as fixed.
    """
    free = free_memory(device)
    peaks: list[int] = []
    for count in (few, few, 2 * few):  # the first call also allocates workspaces that stay
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        try:
            run(count)
        except torch.OutOfMemoryError as error:
            if peaks:
                return 0, max(1, -(-peaks[-1] // few))
            least = torch.cuda.max_memory_allocated(device) - before
            raise MemoryError(
                f"{count} {what} at once need more than {_gib(least)} GiB of GPU memory, and {_gib(free)} GiB are "
                f"free: {ADVICE}"
            ) from error
        peaks.append(torch.cuda.max_memory_allocated(device) - before)
    each = max(1, (peaks[2] - peaks[1]) // few)
    return max(peaks[1] - few * each, 0), each


def free_memory(device: torch.device) -> int:
    """Return the bytes that this process can still use on a GPU: free, or cached by torch and unused."""
    free, _ = torch.cuda.mem_get_info(device)
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + cached


def _gib(count: int) -> str:
    return f"{count / 2**30:.2f}"


def saved_bytes(run: Callable[[], object], model: torch.nn.Module) -> int:
    """Return the bytes that a call keeps for its backward pass, besides the weights of the model: on any device."""
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        run()
    return sum(kept.values())
