"""How many adapters fit into a GPU's memory, measured on a GPU that is made up."""

import pytest
from heavy import Lazy, needs

pytestmark = [pytest.mark.torch, needs("torch")]
torch, memory = Lazy("torch"), Lazy("fgsv.utilities.adapters.memory")


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

    def fit(few=1, asked=None, most=64):
        return memory.fit_on_gpu("adapters", run, few, torch.device("cuda"), asked, most)

    assert fit() == (850 - 200) // 150
    assert (fit(asked=2), fit(most=3)) == (2, 3)
    assert fit(few=4) == 850 // (800 // 4)  # eight do not fit
    with pytest.raises(MemoryError, match=r"6 adapters at once need .* 4 adapters would fit$"):
        fit(asked=6)
    with pytest.raises(MemoryError, match=r"8 adapters at once need more than 0\.00 GiB .* are free: use a smaller"):
        fit(few=8)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (350, capacity))
    with pytest.raises(MemoryError, match=r"1 adapters at once need .* 0 adapters would fit: use a smaller batch"):
        fit()
