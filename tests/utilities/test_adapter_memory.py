"""How many adapters fit into a GPU's memory, measured on a GPU that is made up."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def imported():
    """Import what takes seconds where it is used, not wherever the tests are collected."""
    global torch, Need, Room, fit, measure, room_for
    torch = pytest.importorskip("torch")
    from fgsv.utilities.adapters.memory import Need, Room, fit, measure, room_for


def test_adapters_are_fitted_to_the_memory():
    need = Need(fixed=2**30, each=2**28)
    assert fit("adapters", need, free=3 * 2**30, asked=None, most=1024) == 8
    assert fit("adapters", need, free=3 * 2**30, asked=5, most=1024) == 5
    assert fit("adapters", need, free=300 * 2**30, asked=None, most=64) == 64
    with pytest.raises(MemoryError, match=r"20 adapters at once need 6\.00 GiB .* 3\.00 GiB .* 8 adapters would fit"):
        fit("adapters", need, free=3 * 2**30, asked=20, most=1024)
    with pytest.raises(MemoryError, match=r"1 adapters at once need 1\.25 GiB .* 0 adapters would fit: use"):
        fit("adapters", need, free=2**30, asked=None, most=1024)
    cpu = torch.device("cpu")
    assert room_for(print, print, cpu, None, Room(1024, 512)) == Room(64, 512)
    with pytest.raises(ValueError, match="at least 1"):
        room_for(print, print, cpu, 0, Room(1024, 512))


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
    assert measure("adapters", run, 1, gpu) == Need(200, 150)
    assert measure("trajectories", run, 4, gpu) == Need(0, 200)  # eight do not fit
    assert room_for(run, run, gpu, None, Room(64, 64)) == Room(4, 4)
    with pytest.raises(MemoryError, match=r"6 adapters at once need .* 4 adapters would fit"):
        room_for(run, run, gpu, 6, Room(64, 64))
    with pytest.raises(MemoryError, match=r"8 adapters at once need more than 0\.00 GiB .* are free: use a smaller"):
        measure("adapters", run, 8, gpu)
