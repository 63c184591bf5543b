"""The scorer on this machine: the same log-likelihoods in batches, along a tree, and token by token."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from utilities.tiny_language import gpt2, llama, tokenizer

from fgsv.answers import HF, Answer, NothingToShare, Passage, game_of, royalties, value

pytestmark = pytest.mark.torch

MODELS = {"llama": lambda: llama(max_position_embeddings=256), "gpt2": gpt2}


def prompts_of(rng, count):
    """Prompts of random pieces in their order, with different beginnings in common, and one end."""
    pieces = [rng.integers(3, 300, rng.integers(1, 7)).tolist() for _ in range(6)]
    masks = rng.random((count, 6)) < 0.5
    return [[0, 9, *(token for k in np.flatnonzero(mask) for token in pieces[k]), 11, 12] for mask in masks]


def one_by_one(model, prompt, answer):
    """Return the sum of log p of each token, from the logits of one sequence without a cache."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *answer]]), use_cache=False).logits[0].double()
    logs = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
    return float(logs[range(len(answer)), answer].sum())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tree", [False, True])
def test_log_likelihoods_are_those_of_each_prompt_alone(name, tree):
    scorer = HF(MODELS[name](), tokenizer(), tree=tree, device="cpu")
    prompts, answer = prompts_of(np.random.default_rng(1), 20), [5, 6, 7, 8]
    expected = [one_by_one(scorer.model, prompt, answer) for prompt in prompts]
    assert np.abs(scorer.logprob(prompts, answer) - expected).max() < 1e-4
    assert np.ptp(expected) > 1e-2


def test_prompts_that_go_on_like_an_answer_or_begin_differently_keep_their_own():
    scorer = HF(llama(), tokenizer(), tree=True, device="cpu")
    prompts, answer = [[0, 4], [0, 4, 5], [0, 4, 5, 6], [0, 4, 5, 6, 9], [7, 4]], [5, 6]
    expected = [one_by_one(scorer.model, prompt, answer) for prompt in prompts]
    assert np.abs(scorer.logprob(prompts, answer) - expected).max() < 1e-4


PIECES = [[k] * 8 for k in range(10, 16)]
EVERYTHING = [[0, *(token for k in range(6) if code >> k & 1 for token in PIECES[k]), 9] for code in range(64)]


@pytest.mark.parametrize(
    ("prompts", "n_tokens"),
    [(EVERYTHING, 1 + 63 * 8 + 64 * (1 + 2)), ([[k] * 400 for k in (3, 4)], 2 * 402)],
    ids=["each beginning once", "in a padded batch"],
)
def test_what_is_less_work_is_used(prompts, n_tokens):
    scorer = HF(llama(max_position_embeddings=512, hidden_size=64), tokenizer(), device="cpu")
    given = []
    scorer.model.register_forward_pre_hook(lambda *call: given.append(call[2]["input_ids"].shape), with_kwargs=True)
    scorer.logprob(prompts, [5, 6])
    assert given[-1].numel() == n_tokens
    assert (given[-1][0] == 1) == (prompts is EVERYTHING)


def test_a_model_that_needs_more_than_a_mask_is_scored_in_batches():
    """MPT adds to attention by the distance in the sequence, whatever the places are."""
    from transformers import MptConfig, MptForCausalLM

    config = MptConfig(d_model=16, n_heads=2, n_layers=2, vocab_size=300, max_seq_len=256)
    scorer = HF(MptForCausalLM(config).eval(), tokenizer(), device="cpu")
    prompts, answer = [[0, *range(10, 10 + k), k] for k in range(8, 40)], [5, 6]
    expected = [one_by_one(scorer.model, prompt, answer) for prompt in prompts]
    assert np.abs(scorer.logprob(prompts, answer) - expected).max() < 1e-4
    with pytest.raises(ValueError, match="tree=True needs a model that attends"):
        HF(scorer.model, tokenizer(), tree=True, device="cpu")


ANSWER = Answer(
    "was it the best",
    "it was the worst of times",
    [Passage("it was the best. To be or not to be.", "A"), Passage("Import numpy.", "B")],
)


def test_a_coalition_is_worth_the_likelihood_of_the_answer_after_its_pieces():
    scorer = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    game = game_of(ANSWER, scorer)
    texts = ["Sources:\n", "To be or not to be.\n", "Import numpy.\n", "\nQuestion: was it the best\nAnswer:\n"]
    prompt = [0, *(token for text in texts for token in tokenizer()(text)["input_ids"])]
    answer = tokenizer()(ANSWER.text)["input_ids"]
    expected = one_by_one(scorer.model, prompt, answer)
    assert game([[False, True, True]])[0] == pytest.approx(expected, abs=1e-4)
    for target, found in {"probability": np.exp(expected), "logit": expected - np.log1p(-np.exp(expected))}.items():
        assert game_of(ANSWER, scorer, target=target)([[False, True, True]])[0] == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("target", ["log-likelihood", "probability", "logit"])
def test_a_rise_within_the_rounding_of_the_engine_is_nothing_to_share(target):
    scorer = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    scorer.logprob = lambda prompts, answer: np.array([-1.0 / len(prompt) for prompt in prompts])
    rise = np.ptp(game_of(ANSWER, scorer)([[False] * 3, [True] * 3]))
    least = rise / 4 / np.sqrt(len(tokenizer()(ANSWER.text)["input_ids"]))  # of a token, for four standard errors
    scorer.noise = 0.99 * least
    assert value(ANSWER, scorer, target=target).total > 0
    scorer.noise = 1.01 * least
    with pytest.raises(NothingToShare, match="may be due to rounding by the engine"):
        value(ANSWER, scorer, target=target)


def test_windows_are_the_tokens_of_the_passage_as_it_was_shown():
    scorer = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    game = game_of(ANSWER, scorer, cut=4)
    whole = [tokenizer()(passage.text + "\n")["input_ids"] for passage in ANSWER.passages]
    ids = [token for window in game.function.ids for token in window]
    assert ids == [token for each in whole for token in each]
    assert max(map(len, game.function.ids)) == 4


def test_too_long_a_prompt_is_named_before_anything_is_evaluated():
    scorer = HF(llama(), tokenizer(), device="cpu")
    with pytest.raises(ValueError, match=r"^the prompt .* have .* tokens, but the model takes at most 64"):
        game_of(ANSWER, scorer)
    with pytest.raises(ValueError, match=r"^answer 'x': the prompt"):
        royalties([replace(ANSWER, id="x")] * 2, scorer, seed_from="1")


def test_the_frame_says_what_numbers_depend_on():
    frames = [HF(llama(hidden_size=16), tokenizer(), device="cpu", tree=tree).frame for tree in (None, False)]
    frames.append(HF(llama(hidden_size=32), tokenizer(), device="cpu").frame)
    assert [len({frame[name] for frame in frames}) for name in ("model", "tree", "tokenizer")] == [2, 2, 1]
    scorer = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    assert game_of(ANSWER, scorer, target="logit").fingerprint != game_of(ANSWER, scorer).fingerprint


def test_a_ledger_answers_a_second_run(tmp_path):
    scorer = HF(llama(max_position_embeddings=256), tokenizer(), device="cpu")
    first = value(ANSWER, scorer, ledger=tmp_path / "answers.db")
    scorer.logprob = lambda *given: pytest.fail("it was asked again")
    assert (value(ANSWER, scorer, ledger=tmp_path / "answers.db").values == first.values).all()
