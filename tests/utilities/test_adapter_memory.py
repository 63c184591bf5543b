"""How many adapters fit into a GPU's memory, measured on a GPU that is made up."""

import pytest
from heavy import Lazy, needs

pytestmark = [pytest.mark.torch, needs("torch")]
torch, memory = Lazy("torch"), Lazy("fgsv.utilities.adapters.memory")


def test_adapters_are_fitted_to_the_memory():
    need = memory.MemoryNeed(fixed=2**30, each=2**28)
    assert memory.fit("adapters", need, free=3 * 2**30, asked=None, most=1024) == 8
    assert memory.fit("adapters", need, free=3 * 2**30, asked=5, most=1024) == 5
    assert memory.fit("adapters", need, free=300 * 2**30, asked=None, most=64) == 64
    with pytest.raises(MemoryError, match=r"20 adapters at once need 6\.00 GiB .* 3\.00 GiB .* 8 adapters would fit"):
        memory.fit("adapters", need, free=3 * 2**30, asked=20, most=1024)
    with pytest.raises(MemoryError, match=r"1 adapters at once need 1\.25 GiB .* 0 adapters would fit: use"):
        memory.fit("adapters", need, free=2**30, asked=None, most=1024)
    with pytest.raises(ValueError, match="at least 1"):
        memory.check_asked(0)


def test_memory_is_measured_with_few_and_with_twice_as_many(monkeypatch):
    held, capacity, peak = 100, 1000, 0

    def run(count):
        nonlocal peak
        needed = 200 + 150 * count
        peak = held + min(needed, capacity)
        if needed > capacity:
            raise torch.OutOfMemoryError("no memory")

    for name, answer in (
        ("memory_allocated", lambda _: held),
        ("memory_reserved", lambda _: held),
        ("mem_get_info", lambda _: (capacity, capacity + held)),
        ("max_memory_allocated", lambda _: peak),
        ("reset_peak_memory_stats", lambda _: None),
    ):
        monkeypatch.setattr(torch.cuda, name, answer)
    gpu = torch.device("cuda")
    assert memory.measure("adapters", run, 1, gpu) == memory.MemoryNeed(200, 150)
    assert memory.measure("trajectories", run, 4, gpu) == memory.MemoryNeed(0, 200)  # eight do not fit
    assert memory.fit_on_gpu("adapters", run, 1, gpu, None, 64) == 4
    assert memory.fit_on_gpu("adapters", run, 1, gpu, None, 3) == 3
    with pytest.raises(MemoryError, match=r"6 adapters at once need .* 4 adapters would fit"):
        memory.fit_on_gpu("adapters", run, 1, gpu, 6, 64)
    with pytest.raises(MemoryError, match=r"8 adapters at once need more than 0\.00 GiB .* are free: use a smaller"):
        memory.measure("adapters", run, 8, gpu)
