"""Whose sentences does an answer rest on? Modules of Python's standard library as publishers of what they define.

A small model learns to look names up: it is trained on entries of an index such as "dumps json" with made-up places,
and on questions about them, so it knows nothing but what its sources say. It then answers questions about the
standard library on this machine, whose answers stand in one source, or need two.
"""

from __future__ import annotations

import ast
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import tokenizers
import torch
import transformers

from experiments.records import save, say
from experiments.training import minimise
from fgsv.answers import HF, Answer, NothingToShare, Passage, value

PUBLISHERS = 4
"""Sources of an answer."""
STATEMENTS = 3
"""Of each source."""
LEAST = 1.0
"""Answers whose log-likelihood rises by no more have nothing to share: the model did not find them in its sources."""
COLUMNS = ["kind", "query", "group", "needed", "rise", "value", "stderr", "share", "share_low", "share_high"]


@dataclass(frozen=True)
class Sizes:
    """Of the model, its training, and the experiment."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    modules: int = 24
    names: int = 60
    steps: int = 2600
    batch: int = 32
    rate: float = 4e-3
    questions: int = 20
    """Of each kind."""
    budget: int = 64


def run(
    out: Path = Path("bench-out/answers"), *, small: bool = False, steps: int | None = None, seed: int = 0
) -> pd.DataFrame:
    """Value the sources of answers of a small model: under two minutes on a CPU, with --small a few seconds.

    `steps` of training replace the default: with too few the model has not learned to look names up.
    """
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    sizes = Sizes(steps=2, questions=2) if small else Sizes()
    sizes = Sizes(**(asdict(sizes) | ({} if steps is None else {"steps": steps})))
    library = definitions(sizes)
    scorer = trained(library, sizes, seed)
    rows = []
    for kind, count in {"one source": 1, "two sources": 2}.items():
        for answer, needed in questions(library, count, sizes.questions, seed):
            try:
                result = value(answer, scorer, sizes.budget, least=LEAST, seed=seed)
            except NothingToShare as nothing:
                say(f"{answer.query} {nothing}")
                continue
            for row in result.to_frame().to_dict("records"):
                about = {"kind": kind, "query": answer.query, "needed": row["group"] in needed}
                rows.append(about | {"rise": float(result.total)} | row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    means = table.groupby(["kind", "needed"])[["share", "rise"]].mean()
    say(f"mean shares of a source, and rises of the log-likelihood:\n{means.round(3).to_string()}")
    save(out, "answers", table, {}, settings=asdict(sizes))
    return table


def definitions(sizes: Sizes) -> dict[str, list[str]]:
    """Return module -> the functions and classes that it defines, of the standard library on this machine.

    Names that several modules define come first: questions about them need several sources.
    """
    places = defaultdict(set)
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        if not path.stem.startswith("_"):
            for node in ast.parse(path.read_bytes()).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(path.stem)
    shared = [name for name in sorted(places) if len(places[name]) == 2]
    modules = sorted({module for name in shared for module in places[name]})[: sizes.modules]
    found: dict[str, list[str]] = {module: [] for module in modules}
    names = [*shared, *(name for name in sorted(places) if len(places[name]) == 1)]
    known = [name for name in names if places[name] <= found.keys()]
    for name in known[: sizes.names]:
        for module in places[name]:
            found[module].append(name)
    return {module: names for module, names in found.items() if names}


def told(name: str, *modules: str) -> str:
    """Return an entry of an index, as sources and answers have it."""
    return " and ".join(f"{name} {module}" for module in sorted(modules)) + "."


def lesson(library: dict[str, list[str]], rng: np.random.Generator) -> str:
    """Return sources with made-up places of names, and questions about three of them with their answers."""
    names = sorted({name for names in library.values() for name in names})
    modules = list(library)
    some = [names[k] for k in rng.choice(len(names), 5, replace=False)]
    facts = [(name, modules[rng.integers(len(modules))]) for name in some]
    if rng.random() < 0.5:
        facts.append((some[0], modules[rng.integers(len(modules))]))
    lines = [told(*facts[k]) for k in rng.permutation([*range(len(facts)), rng.integers(len(facts))])]
    for asked in rng.permutation(some[:3]):
        answer = told(asked, *{module for name, module in facts if name == asked})
        lines += [f"Question: where is {asked}?", "Answer:", answer]
    return "\n".join(["Sources:", *lines])


def trained(library: dict[str, list[str]], sizes: Sizes, seed: int) -> HF:
    """Return the scorer: a model of Llama's layers, trained on lessons."""
    words = ["<s>", "<pad>", *["Sources", "Question", "Answer", "where", "is", "and", ":", "?", "."]]
    words += sorted({*library, *(name for names in library.values() for name in names)} - {*words})
    numbers = {word: number for number, word in enumerate(words)}
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="<pad>"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=found, bos_token="<s>")
    config = transformers.LlamaConfig(
        vocab_size=len(words),
        hidden_size=sizes.hidden,
        intermediate_size=2 * sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.LlamaForCausalLM(config)

    def batches() -> Iterator[tuple[torch.Tensor, ...]]:
        rng = np.random.default_rng(seed)
        while True:
            read = tokenizer([lesson(library, rng) for _ in range(sizes.batch)], add_special_tokens=False)[
                "input_ids"
            ]
            length = max(map(len, read))
            yield (torch.tensor([[0, *ids] + [1] * (length - len(ids)) for ids in read]),)

    def loss_of(tokens: torch.Tensor) -> torch.Tensor:
        logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
        read, answered = tokens[:, 1:] != 1, (tokens == numbers["Answer"]).cumsum(1)[:, :-1] > 0
        return losses[read].mean() + losses[read & answered].mean()  # what sources say is mostly chance

    say(f"training a model of {sum(w.numel() for w in model.parameters()):,} weights on {len(words)} words")
    minimise("model", model, loss_of, batches(), sizes.steps, sizes.rate)
    return HF(model, tokenizer, device="cpu")


def questions(
    library: dict[str, list[str]],
    count: int,
    most: int,
    seed: int,
    publishers: int = PUBLISHERS,
    statements: int = STATEMENTS,
) -> Iterator[tuple[Answer, set[str]]]:
    """Yield answers that need so many sources, and the publishers that are needed; the others state other facts."""
    rng = np.random.default_rng([seed, count])
    places = defaultdict(set)
    for module, names in library.items():
        for name in names:
            places[name].add(module)
    asked = [name for name in sorted(places) if len(places[name]) == count]
    for k in rng.permutation(len(asked))[:most]:
        name = asked[k]
        others = [module for module in library if module not in places[name]]
        chosen = [*sorted(places[name]), *(others[j] for j in rng.permutation(len(others)))][:publishers]
        passages = []
        for j in rng.permutation(publishers):
            module = chosen[j]
            own = [each for each in library[module] if each != name]
            stated = [own[i] for i in rng.permutation(len(own))[: statements - (module in places[name])]]
            stated += [name] * (module in places[name])
            passages.append(Passage(" \n\n".join(told(each, module) for each in stated), module))
        yield Answer(f"where is {name}?", told(name, *places[name]), passages), places[name]
