"""Log-likelihoods from a server: requests that are tried again, and replies that are checked."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fgsv.types import Floats

TRIES = 6
FIRST_PAUSE = 0.5
"""Seconds before the second try; each pause is twice as long as the one before."""
LARGEST = 1e-3
"""A log-likelihood above this is not one."""

Read = Callable[[Any], list[tuple[int, Any]]]
"""From a reply to the tokens of a prompt's end, and their log-probabilities."""


class ServerError(RuntimeError):
    """A server failed, or cannot say how likely an answer is; the message names what it lacks."""


@dataclass(frozen=True)
class Connection:
    """Requests to one server: so many at a time, each tried again with growing pauses."""

    url: str
    key: str | None = field(repr=False)
    at_once: int
    timeout: float

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, got {self.url!r:.200}")

    def reply(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the reply to a request; overload and lost connections are tried again."""
        headers = {"Content-Type": "application/json"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers)
        for number in range(TRIES):
            if number:
                time.sleep(FIRST_PAUSE * 2 ** (number - 1))
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                failure = f"{error} {error.read(500).decode(errors='replace')}"
                if error.code < 500 and error.code not in (408, 425, 429):
                    break
            except (OSError, http.client.HTTPException) as error:  # timeouts and lost connections among them
                failure = repr(error)
            except ValueError:
                failure = "the reply is not JSON"
                break
        raise ServerError(f"{self.url}{path} failed after {number + 1} of {TRIES} tries: {failure:.500}")

    def log_likelihood(
        self, path: str, bodies: Sequence[Mapping[str, Any]], answer: Sequence[int], read: Read
    ) -> Floats:
        """Return (m,) the log-likelihood of the answer, the end of the prompt of each request."""
        with ThreadPoolExecutor(self.at_once) as pool:
            replies = list(pool.map(partial(self.reply, path), bodies))  # after an error, what waits is not sent
        return np.array([_sum(read, reply, answer, self.url) for reply in replies])


def _sum(read: Read, reply: Any, answer: Sequence[int], url: str) -> float:
    """Return the log-likelihood of the answer, the end of a prompt."""
    try:
        found = read(reply)[-len(answer) :]
    except (LookupError, TypeError, ValueError, AttributeError):
        raise ServerError(
            f"{url} returned no log-probabilities of the prompt's tokens: this server, or how it was started, cannot "
            "say how likely an answer is (SGLang and vLLM can; llama.cpp and most paid interfaces cannot)"
        ) from None
    if [token for token, _ in found] != list(answer):
        raise ServerError(f"{url} returned log-probabilities of other tokens than the answer's")
    values = np.array([value for _, value in found], dtype=float)
    if not (values <= LARGEST).all():
        raise ServerError(f"{url} returned {values.max()} as a log-probability")
    return float(values.sum())
