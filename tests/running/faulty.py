"""A game that fails in the way it is told to; workers start it sooner from a module that imports little."""

import os
import signal
import time
import zlib

import numpy as np

N, FILLER = 30, -1.5


def is_bad(masks):
    return np.array([zlib.crc32(bytes(row)) % 53 == 21 for row in np.packbits(masks, axis=1)])


class Bad:
    """A game that fails in one way whenever a coalition is among a few that nobody knows beforehand."""

    n_players = N
    fingerprint = "bad"

    def __init__(self, fault, *, independent_rows=False):
        self.fault = fault
        self.independent_rows = independent_rows

    def __call__(self, masks):
        values = np.sqrt((masks * np.arange(1, N + 1)).sum(axis=1))
        bad = is_bad(masks)
        return getattr(self, self.fault)(values, bad) if bad.any() else values

    def raises(self, values, bad):
        raise ZeroDivisionError("no such model")

    def nan(self, values, bad):
        return np.where(bad, np.nan, values)

    def wrong_shape(self, values, bad):
        return values[:-1] if len(values) > 1 else np.empty((0, 2))

    def words(self, values, bad):
        return ["many"] * len(values)

    def other_width(self, values, bad):
        return np.stack([values, values], axis=1)

    def hang(self, values, bad):
        time.sleep(60)

    def hang_deaf(self, values, bad):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(60)

    def die(self, values, bad):
        os.kill(os.getpid(), signal.SIGKILL)

    def fill(self, values, bad):
        """Answer with what the policy would put in the place of a failure: the oracle of these tests."""
        self.counted = getattr(self, "counted", 0) + (bad.sum() if self.row_by_row else len(bad))
        return np.where(bad | (not self.row_by_row), FILLER, values)
