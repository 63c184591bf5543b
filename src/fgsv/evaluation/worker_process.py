"""Code of a worker process: fetch the game once, evaluate batches, and exit with the driver."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from pathlib import Path

from fgsv.coalitions import unpack
from fgsv.evaluation.batch import attempt
from fgsv.game import Game, GameError, message_of
from fgsv.ledger import Outcome
from fgsv.signals import ENDINGS, one_thread

_games: dict[str, Game] = {}
"""Games that this worker has loaded, by folder."""
_fetching = threading.Lock()


def attempt_in_worker(folder: str, packed: bytes, timeout: float | None, pickled: bytes | None) -> Outcome | None:
    """Evaluate a batch in a worker process, or return None if the game's file cannot be read."""
    with _fetching:
        if folder not in _games:
            try:
                content = pickled if pickled is not None else (Path(folder) / "game").read_bytes()
            except OSError:
                return None
            try:
                fetched = pickle.loads(content)
            except Exception as error:
                raise GameError(
                    f"a worker cannot load the game ({type(error).__name__}: {message_of(error)})"
                ) from None
            if len(_games) > 1:
                _games.pop(next(iter(_games)))  # the game of an earlier run
            _games[folder] = fetched
        game = _games[folder]
    one_thread()  # never undone: in a worker with several threads, one would undo it for another
    return attempt(game, unpack(game.n_players, packed), timeout)


def exit_with_driver(driver: int) -> None:
    """Exit soon after the driver, so that a killed driver leaves no workers behind.

    An interrupt from the terminal, or a request to end from a scheduler, may reach all processes; only the driver
    handles it.
    """
    for number in (signal.SIGINT, *ENDINGS):
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
