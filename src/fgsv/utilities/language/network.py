"""Causal language models of transformers: loading, checking, and the log-likelihood of tokens."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import linear, log_softmax

from fgsv.packages import optional
from fgsv.utilities.adapters.layers import AdaptedModel, is_linear

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LOGIT_BYTES = {"cuda": 2**29, "cpu": 2**25}
"""Logits that are computed at once: the vocabulary is large, and those of all tokens would not fit."""
PLAIN = "causal_flag"
"""The name of attention to all earlier tokens by a flag."""
HUB_SECONDS = 10.0
"""Longest wait for the hub to say that it has a model."""


@dataclass(frozen=True, eq=False)
class Network:
    """A causal language model as two parts: a trunk from tokens to hidden states, and a linear head to logits.

    Where a model's logits are not those of its head alone, `head` is None and the trunk returns the logits.
    """

    model: Any
    trunk: Callable[[torch.Tensor], torch.Tensor]
    """(N, L) tokens -> (N, L, d)."""
    head: Any

    @classmethod
    def of(cls, model: Any) -> Network:
        """Take a model apart, and compare the parts with the whole on a few tokens."""
        head = model.get_output_embeddings()
        inner = model.base_model

        def hidden(tokens: torch.Tensor) -> torch.Tensor:
            return inner(input_ids=tokens, use_cache=False).last_hidden_state

        def logits(tokens: torch.Tensor) -> torch.Tensor:
            return model(input_ids=tokens, use_cache=False).logits

        tokens = _few_tokens(model, 4)
        with torch.no_grad():
            whole = logits(tokens)
            if not close(logits(tokens[:, :3]), whole[:, :3]):
                raise ValueError(
                    f"{type(model).__name__} looks at later tokens: it is not a causal language model, or was "
                    "saved without is_decoder=True"
                )
            if isinstance(head, torch.nn.Linear) and inner is not model and close(head(hidden(tokens)), whole):
                return cls(model, hidden, head)
        return cls(model, logits, None)

    def log_likelihood(self, tokens: torch.Tensor, *, compiled: Compiled | None = None) -> torch.Tensor:
        """Return (N, L) log-likelihoods of the token after each place of (N, L) tokens; the last place has none.

        They carry gradients for adapters that are bound to the trunk.
        """
        following = torch.nn.functional.pad(tokens[:, 1:], (0, 1)).flatten()
        states = (compiled.trunk if compiled else self.trunk)(tokens).flatten(0, 1)
        if self.head is None:
            found = log_likelihood(states, following)
        else:
            step = compiled.step if compiled else loss_and_gradient
            found = -HeadLoss.apply(states, following, self.head.weight, self.head.bias, step)  # type: ignore[no-untyped-call]
        return found.view(tokens.shape)

    def losses(
        self, tokens: torch.Tensor, counted: torch.Tensor, valid: torch.Tensor, compiled: Compiled | None = None
    ) -> torch.Tensor:
        """Return the (width,) mean losses per token of the adapters bound to the model, each over its mini-batch.

        Args:
            tokens: (width * b, L), the sequences of one adapter next to each other.
            counted: (width * b, L) whether the token after a place counts.
            valid: (width, b) whether a sequence counts.
            compiled: Compiled parts for this shape; None: the model as it is.

        """
        found = -self.log_likelihood(tokens, compiled=compiled)
        weights = (counted & valid.flatten()[:, None]).to(found.dtype).view(len(valid), -1)
        return (found.view(weights.shape) * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


@dataclass(frozen=True, eq=False)
class Compiled:
    """The trunk and the step of the head, compiled for one shape; the first call takes up to a minute."""

    trunk: Callable[[torch.Tensor], torch.Tensor]
    step: Callable[..., tuple[torch.Tensor, torch.Tensor]]

    @classmethod
    def of(cls, network: Network) -> Compiled:
        """Compile with shapes that do not change: with dynamic ones, compilation takes much longer."""
        return cls(torch.compile(network.trunk, dynamic=False), torch.compile(loss_and_gradient, dynamic=False))


def log_likelihood(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-likelihoods of (...) tokens by (..., words) logits, in single precision at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return log_softmax(wide, dim=-1).gather(-1, tokens[..., None])[..., 0]


def loss_and_gradient(
    states: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cross entropies and their gradients in the states, without a graph.

    Args:
        states: (k, d) hidden states.
        targets: (k,) tokens that follow.
        weight: (words, d) of the head.
        bias: (words,) of the head; None if it has none.

    Returns:
        (k,) losses and (k, d) gradients.

    """
    logits = linear(states, weight, bias)
    logs = log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    losses = -logs.gather(1, targets[:, None])[:, 0]
    hit = torch.arange(len(weight), device=targets.device) == targets[:, None]
    excess = logs.exp() - hit.to(logs.dtype)
    return losses, excess.to(states.dtype) @ weight


class HeadLoss(torch.autograd.Function):
    """Cross entropies of a frozen head in chunks of tokens, with gradients of the hidden states.

    The gradient is computed with the loss, so that logits need not be kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: torch.Tensor,
        targets: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        step: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    ) -> torch.Tensor:
        """Return the (N,) losses of states.

        Args:
            ctx: Where torch keeps what `backward` needs.
            states: (N, d) hidden states.
            targets: (N,) tokens that follow.
            weight: (words, d) of the frozen head.
            bias: (words,) of the head; None if it has none.
            step: `loss_and_gradient`, or its compiled form.

        """
        size = chunk(len(states), len(weight), states.device)
        pieces = [slice(start, start + size) for start in range(0, len(states), size)]
        if not ctx.needs_input_grad[0]:
            found = [log_likelihood(linear(states[each], weight, bias), targets[each]) for each in pieces]
            return -torch.cat(found)
        losses = torch.empty(
            len(states), dtype=torch.promote_types(states.dtype, torch.float32), device=states.device
        )
        gradient = torch.empty_like(states)
        for piece in pieces:
            losses[piece], gradient[piece] = step(states[piece], targets[piece], weight, bias)
        ctx.save_for_backward(gradient)
        return losses

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        """Multiply the gradients that are kept by those of the losses."""
        (gradient,) = ctx.saved_tensors
        return gradient * outer[0][:, None].to(gradient.dtype), None, None, None, None


def chunk(n_tokens: int, n_words: int, device: torch.device) -> int:
    """Return how many tokens to compute the logits of at once: a divisor of their number, if one is near.

    >>> chunk(131072, 8192, torch.device("cuda"))
    16384
    >>> chunk(1000, 50, torch.device("cpu"))
    1000

    Args:
        n_tokens: Tokens in all.
        n_words: Size of the vocabulary.
        device: A GPU has room for more logits.

    """
    most = max(1, LOGIT_BYTES["cuda" if device.type == "cuda" else "cpu"] // (4 * n_words))
    least = -(-n_tokens // most)
    count = next((count for count in range(least, 2 * least) if n_tokens % count == 0), least)
    return -(-n_tokens // count)


def load(model: Any, tokenizer: Any, dtype: str, device: torch.device) -> tuple[Any, Any]:
    """Return a model on a device, in a precision, and its tokenizer.

    Of a hub name, the copy in the hub's cache is used, if there is one, so that a run finds the weights that it began
    with.

    Args:
        model: A causal language model of transformers, which is copied, its folder, or its name on the hub.
        tokenizer: An object, a folder or a name; None: the one beside the model, which must then be named.
        dtype: "float32" or "bfloat16".
        device: Where the model goes.

    Raises:
        ValueError: It cannot be loaded, lacks weights, or is not a causal language model with an output head.
        TypeError: `model` is neither a name nor a module of torch.

    """
    transformers = optional("transformers", "language models", "language")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be {' or '.join(DTYPES)}, got {dtype!r}")
    named = isinstance(model, str | Path)
    if not named and not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a model of transformers, a folder or a hub name, got {type(model).__name__}")
    if tokenizer is None and not named:
        raise ValueError("a model that is an object needs its tokenizer: give tokenizer=...")
    try:
        if named:
            fetch = partial(transformers.AutoModelForCausalLM.from_pretrained, output_loading_info=True)
            found, info = _fetched(fetch, str(model))
        else:
            found = copy.deepcopy(model)
            info = {}
        tokenizer = load_tokenizer(model if tokenizer is None else tokenizer)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot load the language model {str(model)!r}: {error}. "
            "Expected a folder, or a name on the hub, with a causal language model of transformers and its tokenizer"
        ) from error
    if info.get("missing_keys"):
        raise ValueError(
            f"{str(model)!r} lacks weights of a causal language model, such as {min(info['missing_keys'])}: they "
            "would be random; give the folder or name of a model that was trained as one"
        )
    if not callable(getattr(found, "get_output_embeddings", None)) or found.get_output_embeddings() is None:
        raise ValueError(
            f"{type(found).__name__} is not a causal language model: it has no output head; load it with "
            "transformers.AutoModelForCausalLM"
        )
    if found.config.is_encoder_decoder:
        raise ValueError(f"{type(found).__name__} has an encoder: expected a causal language model without one")
    return found.to(device, DTYPES[dtype]).eval().requires_grad_(False), tokenizer


def load_tokenizer(tokenizer: Any) -> Any:
    """Return a tokenizer: an object as it is, or that of a folder or a name on the hub."""
    if not isinstance(tokenizer, str | Path):
        return tokenizer
    transformers = optional("transformers", "tokenizers", "language")
    return _fetched(transformers.AutoTokenizer.from_pretrained, str(tokenizer))


def _fetched(fetch: Callable[[str], Any], name: str) -> Any:
    """Load a model or a tokenizer from a folder, from the hub's cache on this machine, or else from the hub."""
    if Path(name).is_dir():
        return fetch(name)
    from huggingface_hub import HfApi, constants, snapshot_download

    try:
        return fetch(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError):  # not there, or not whole
        pass
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)  # without an answer, a download would try again and again
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise ValueError(
            f"there is no such folder, the cache of the hub ({constants.HF_HUB_CACHE}) does not have it, and the hub "
            f"does not give it ({reason}). Name the folder of a model; `hf download {name} --local-dir FOLDER` makes "
            "one on a machine with a connection"
        ) from error
    return fetch(name)


def projections(model: Any) -> tuple[str, ...]:
    """Return the names of all linear layers but the output head, as peft's "all-linear" does."""
    head = model.get_output_embeddings()
    return tuple(name for name, module in model.named_modules() if is_linear(module) and module is not head)


def attends_to_all(config: Any, length: float) -> bool:
    """Return whether every layer attends to all earlier tokens, of so many."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return kinds == {"full_attention"} and (getattr(config, "sliding_window", None) or math.inf) >= length


def use_plain_attention(model: Any, length: int) -> None:
    """Let a model attend to all earlier tokens by a flag rather than a mask, where that is the same, and faster.

    transformers builds a mask of (N, L, L) where its model is compiled or recorded. Models with sliding windows keep
    their own attention, and so does one that this would change.
    """
    if model.config._attn_implementation != "sdpa" or not attends_to_all(model.config, length):
        return
    if not hasattr(model, "set_attn_implementation"):  # an older transformers
        return
    tokens = _few_tokens(model, length)
    with torch.no_grad():
        before = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        try:
            register_plain_attention()
            model.set_attn_implementation(PLAIN)
            after = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        except (ImportError, AttributeError, ValueError):  # a version that cannot register it
            after = before + 1
    if not close(after, before):
        model.set_attn_implementation("sdpa")


def register_plain_attention() -> None:
    """Tell transformers what `PLAIN` is: in the process that loads a model, and in every worker that is given it."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    AttentionInterface.register(PLAIN, sdpa_attention_forward)
    AttentionMaskInterface.register(PLAIN, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    return None


def check_apart(network: Network, adapted: AdaptedModel) -> None:
    """Raise an error if a model mixes samples in its adapted layers, as experts do that share out tokens."""
    generator = torch.Generator().manual_seed(0)
    weights = 0.1 * torch.randn(2, adapted.n_weights, generator=generator).to(adapted.device)
    tokens = _few_tokens(network.model, 5)
    try:
        with adapted.using(weights):
            together = network.trunk(tokens.repeat(2, 1))
        alone = []
        for row in range(2):
            with adapted.using(weights[row : row + 1]):
                alone.append(network.trunk(tokens))
    except RuntimeError as error:
        raise ValueError(f"{_MIXED}: {error}") from error
    apart = torch.cat(alone).float()
    if (together.float() - apart).abs().max() > 0.1 * (apart[0] - apart[1]).abs().max():
        raise ValueError(_MIXED)


_MIXED = "the model mixes samples in the layers to adapt, as mixtures of experts do: name other layers as targets"


def weights_digest(model: Any) -> str:
    """Return a hash of a model's class, configuration and weights."""
    config = {
        name: value
        for name, value in model.config.to_diff_dict().items()
        if name not in ("transformers_version", "_name_or_path", "architectures", "dtype", "torch_dtype")
    }
    digest = hashlib.sha256(json.dumps([type(model).__name__, config], sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}:".encode())
        digest.update(tensor.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def tokenizer_digest(tokenizer: Any) -> str:
    """Return a hash of what a tokenizer does."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    content = backend.to_str() if backend is not None else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    special = [getattr(tokenizer, name, None) for name in ("bos_token_id", "eos_token_id")]
    return hashlib.sha256(f"{type(tokenizer).__name__} {special} {content}".encode()).hexdigest()


def _few_tokens(model: Any, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    n_words = model.get_input_embeddings().weight.shape[0]
    device = model.get_input_embeddings().weight.device
    return torch.randint(0, n_words, (1, length), generator=generator).to(device)


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two results are the same but for rounding."""
    gap = (found.float() - expected.float()).abs().max()
    scale = expected.float().abs().max()
    return bool(gap <= (2e-2 if expected.dtype == torch.bfloat16 else 1e-4) * scale)
