"""Scorers on a server: SGLang's native API, and vLLM's. Written for their documented formats."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fgsv.answers.scorers import Ids
from fgsv.types import Floats
from fgsv.utilities.language.network import load_tokenizer, tokenizer_digest
from fgsv.utilities.language.served import Connection
from fgsv.utilities.language.served import ServerError as ServerError
from fgsv.utilities.language.tokens import Reader

NOISE = 2e-2
"""Standard error of a token's log-likelihood: servers compute in half precision, in batches with other requests."""
WORDS = 2**62
"""Of a vocabulary: the server checks that its model knows the tokens."""


class Server(ABC):
    """A model on a server; `SGLang` explains the arguments."""

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
        self.reader = Reader(load_tokenizer(tokenizer), WORDS)
        served = self._served()
        if model is None and len(served) == 1:
            [model] = served
        if model not in served:
            raise ValueError(
                f"model must be one that {url} serves: {', '.join(map(repr, served))}; got {model!r:.200}"
            )
        self.model = model
        longest, flags = served[model]
        self.most_tokens = int(longest or 2**31)
        self.frame = {
            "tokenizer": tokenizer_digest(self.reader.tokenizer),
            "weights": weights,
            **{name: str(flag) for name, flag in flags.items()},
        }

    @abstractmethod
    def _served(self) -> dict[str, tuple[int | None, dict[str, Any]]]:
        """Return the longest prompt of each model that is served, and what its numbers depend on."""

    @abstractmethod
    def logprob(self, prompts: Sequence[Ids], answer: Ids) -> Floats:
        """Return (m,) the log-likelihood of the answer after each prompt."""


class SGLang(Server):
    """A model served by SGLang 0.5, by its native `/generate`: it reuses the prefixes that prompts have in common.

    Written for its documented format; not tried with a live server.

    >>> import fgsv
    >>> scorer = fgsv.answers.SGLang("http://localhost:30000", "models/llama")  # doctest: +SKIP

    Args:
        url: Where the server is.
        tokenizer: The tokenizer of its model: an object, a folder or a name on the hub.
        model: The served name, if it serves several.
        weights: What identifies the model's weights, such as a hash or a revision: a server does not say. A ledger
            takes two models of the same name, and of the same `weights`, for one.
        key: The server's key, if it has one.
        at_once: Requests in flight.
        timeout: Seconds that a reply may take.

    """

    def _served(self) -> dict[str, tuple[int | None, dict[str, Any]]]:
        says = self.connection.reply("/get_server_info")
        names = ("model_path", "dtype", "quantization", "kv_cache_dtype", "attention_backend", "disable_radix_cache")
        flags = {"engine": f"SGLang {says.get('version')}", **{name: says.get(name) for name in names}}
        name = str(says.get("served_model_name") or says.get("model_path"))
        return {name: (says.get("max_req_input_len") or says.get("context_length"), flags)}

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
        return self.connection.log_likelihood("/generate", bodies, answer, _of_sglang)


class VLLM(Server):
    """A model served by vLLM 0.33, by `/v1/completions` with `prompt_logprobs`.

    It computes every prompt anew: what it has cached of a prefix has no log-likelihoods, and values would depend on
    the order of requests. Written for its documented format; not tried with a live server. Arguments are those of
    `SGLang`.

    >>> import fgsv
    >>> scorer = fgsv.answers.VLLM("http://localhost:8000", "models/llama")  # doctest: +SKIP
    """

    def _served(self) -> dict[str, tuple[int | None, dict[str, Any]]]:
        engine = f"vLLM {self.connection.reply('/version').get('version')}"
        return {
            each["id"]: (each.get("max_model_len"), {"engine": engine, "model_path": each.get("root") or each["id"]})
            for each in self.connection.reply("/v1/models")["data"]
        }

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
        return self.connection.log_likelihood("/v1/completions", bodies, answer, _of_vllm)


def _of_sglang(reply: Any) -> list[tuple[int, Any]]:
    """Return the tokens of a prompt's end, and their log-probabilities."""
    return [(int(token), value) for value, token, *_ in reply["meta_info"]["input_token_logprobs"]]


def _of_vllm(reply: Any) -> list[tuple[int, Any]]:
    """Return the same: each place but the first has an object with its token."""
    places = reply["choices"][0]["prompt_logprobs"]
    return [(int(token), each["logprob"]) for place in places if place for token, each in place.items()]
