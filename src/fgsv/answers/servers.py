"""Scorers on a server: SGLang's native API, and vLLM's. Written for their documented formats."""

from __future__ import annotations

import http.client
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fgsv.answers.scorers import Ids
from fgsv.packages import optional
from fgsv.types import Floats
from fgsv.utilities.language.network import tokenizer_digest
from fgsv.utilities.language.tokens import Reader

TRIES = 6
FIRST_PAUSE = 0.5
"""Seconds before the second try; each pause is twice as long as the one before."""
NOISE = 2e-2
"""Standard error of a token's log-likelihood: servers compute in half precision, in batches with other requests."""
LARGEST = 1e-3
"""A log-likelihood above this is not one."""


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

    def replies(self, path: str, bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the replies to requests, in their order."""
        with ThreadPoolExecutor(self.at_once) as pool:
            return list(pool.map(partial(self.reply, path), bodies))  # after an error, what waits is not sent


class SGLang:
    """A model served by SGLang 0.5, by its native `/generate`: it reuses the prefixes that prompts have in common.

    Written for its documented format; not tried with a live server.

    >>> import fgsv
    >>> scorer = fgsv.answers.SGLang("http://localhost:30000", "models/llama")  # doctest: +SKIP

    Args:
        url: Where the server is.
        tokenizer: The tokenizer of its model: an object, a folder or a name on the hub.
        weights: What identifies the model's weights, such as a hash or a revision: a server does not say. A ledger
            takes two models of the same name, and of the same `weights`, for one.
        key: The server's key, if it has one.
        at_once: Requests in flight.
        timeout: Seconds that a reply may take.

    """

    def __init__(
        self,
        url: str,
        tokenizer: Any,
        *,
        weights: str = "not stated",
        key: str | None = None,
        at_once: int = 16,
        timeout: float = 120.0,
    ) -> None:
        self.connection = Connection(url, key, at_once, timeout)
        self.noise = NOISE
        self.reader = _reader(tokenizer)
        says = self.connection.reply("/get_server_info")
        flags = ("model_path", "dtype", "quantization", "kv_cache_dtype", "attention_backend", "disable_radix_cache")
        self.frame = {
            "engine": f"SGLang {says.get('version')}",
            "tokenizer": tokenizer_digest(self.reader.tokenizer),
            "weights": weights,
            **{name: str(says.get(name)) for name in flags},
        }
        self.most_tokens = int(says.get("max_req_input_len") or says.get("context_length") or 2**31)

    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        bodies = [
            {
                "input_ids": [*prompt, *answer],
                "sampling_params": {"temperature": 0, "max_new_tokens": 0},
                "return_logprob": True,
                "logprob_start_len": len(prompt) - 1,
            }
            for prompt in prompts
        ]
        replies = self.connection.replies("/generate", bodies)
        return np.array([_sum(_of_sglang, reply, answer, self.connection.url) for reply in replies])


class VLLM:
    """A model served by vLLM 0.33, by `/v1/completions` with `prompt_logprobs`.

    It computes every prompt anew: what it has cached of a prefix has no log-likelihoods, and values would depend on
    the order of requests. Written for its documented format; not tried with a live server. Arguments are those of
    `SGLang`; `model` is the served name, if it serves several.

    >>> import fgsv
    >>> scorer = fgsv.answers.VLLM("http://localhost:8000", "models/llama")  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str,
        tokenizer: Any,
        *,
        model: str | None = None,
        weights: str = "not stated",
        key: str | None = None,
        at_once: int = 16,
        timeout: float = 120.0,
    ) -> None:
        self.connection = Connection(url, key, at_once, timeout)
        self.noise = NOISE
        self.reader = _reader(tokenizer)
        served = {each["id"]: each for each in self.connection.reply("/v1/models")["data"]}
        if model is None and len(served) == 1:
            [model] = served
        if model not in served:
            raise ValueError(
                f"model must be one that {url} serves: {', '.join(map(repr, served))}; got {model!r:.200}"
            )
        self.model = model
        self.frame = {
            "engine": f"vLLM {self.connection.reply('/version').get('version')}",
            "tokenizer": tokenizer_digest(self.reader.tokenizer),
            "weights": weights,
            "model_path": str(served[model].get("root") or model),
        }
        self.most_tokens = int(served[model].get("max_model_len") or 2**31)

    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""
        bodies = [
            {
                "model": self.model,
                "prompt": [*prompt, *answer],
                "max_tokens": 1,
                "temperature": 0,
                "prompt_logprobs": 0,
                "cache_salt": secrets.token_hex(16),  # no prefix that another request has left
            }
            for prompt in prompts
        ]
        replies = self.connection.replies("/v1/completions", bodies)
        return np.array([_sum(_of_vllm, reply, answer, self.connection.url) for reply in replies])


def _reader(tokenizer: Any) -> Reader:
    """Return what turns texts into tokens; the server checks that its model knows them."""
    if isinstance(tokenizer, str) or hasattr(tokenizer, "__fspath__"):
        tokenizer = optional("transformers", "tokenizers", "language").AutoTokenizer.from_pretrained(str(tokenizer))
    return Reader(tokenizer, 2**62)


def _of_sglang(reply: Any) -> list[tuple[int, Any]]:
    """Return the tokens of a prompt's end, and their log-probabilities."""
    return [(int(token), value) for value, token, *_ in reply["meta_info"]["input_token_logprobs"]]


def _of_vllm(reply: Any) -> list[tuple[int, Any]]:
    """Return the same: each place but the first has an object with its token."""
    places = reply["choices"][0]["prompt_logprobs"]
    return [(int(token), each["logprob"]) for place in places if place for token, each in place.items()]


def _sum(read: Callable[[Any], list[tuple[int, Any]]], reply: Any, answer: Ids, url: str) -> float:
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
