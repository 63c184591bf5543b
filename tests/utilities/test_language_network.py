"""Language models as games: utilities against peft and plain loops, in any batch, and what is refused."""

import copy
import math
from functools import cache
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
import tiny_language as tiny
from heavy import Lazy, needs
from with_peft import with_peft

pytestmark = [pytest.mark.torch, needs("torch", "transformers", "peft")]
torch, transformers = Lazy("torch"), Lazy("transformers")
layers, memory = Lazy("fgsv.utilities.adapters.layers"), Lazy("fgsv.utilities.adapters.memory")
language, models = Lazy("fgsv.utilities.language"), Lazy("fgsv.utilities.language.network")
networks = Lazy("fgsv.utilities.language.fine_tuning")


@cache
def tokenizer():
    return tiny.tokenizer()


MASK = np.array([True, False, True, False, True, True])


def game(model=None, texts=tiny.TEXTS, **options):
    given = {"tokenizer": tokenizer(), "learning_rate": 3e-2, "context": 24, "rank": 2, "alpha": 4, "epochs": 2}
    if "steps" in options:
        del given["epochs"]
    return language.fine_tuned(texts, tiny.TESTS, model=model or tiny.llama(), **(given | options))


@pytest.fixture(scope="module")
def tiny_game():
    return game()


def plain_score(model):
    """Return the mean log-likelihood per token of each domain, one text after the other."""
    scores = []
    for pairs in tiny.TESTS.values():
        total, count = 0.0, 0
        for prompt, answer in (("", pair) if isinstance(pair, str) else pair for pair in pairs):
            before = [0, *tokenizer()(prompt, add_special_tokens=False)["input_ids"]]
            ids = tokenizer()(answer, add_special_tokens=False)["input_ids"]
            with torch.no_grad():
                logs = model(input_ids=torch.tensor([before + ids])).logits.log_softmax(-1)[0]
            total += sum(float(logs[len(before) + k - 1, token]) for k, token in enumerate(ids))
            count += len(ids)
        scores.append(total / count)
    return scores


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (tiny.llama, {}),
        (tiny.llama, {"steps": 5, "schedule": "linear", "targets": ("q_proj", "down_proj")}),
        (tiny.gpt2, {"batch": 2}),
    ],
)
def test_utility_equals_peft_and_a_plain_loop(make, options):
    found = game(make(), **options)
    utility = found.function
    assert isinstance(utility, networks.FineTuned)
    settings = utility.settings
    seed = int(np.random.SeedSequence([0, 0]).generate_state(1)[0])
    start = utility.adapted.initial(seed)
    model = with_peft(make(), utility.adapted, start, rank=2, alpha=4, fan_in_fan_out=make is tiny.gpt2)
    optimiser = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad])
    kept = MASK[utility.documents.owner]
    batches = [
        b for order in utility._orders(seed) for b in torch.as_tensor(order[kept[order]]).split(settings.batch)
    ]
    batches = batches[: settings.steps]
    for step, rows in enumerate(batches):
        tokens, counted = utility.documents.tokens[rows], utility.documents.counted[rows]
        labels = torch.full_like(tokens, -100)
        labels[:, 1:] = torch.where(counted[:, :-1], tokens[:, 1:], -100)
        there = torch.cat([torch.ones(len(rows), 1, dtype=torch.bool), counted[:, :-1]], dim=1)
        loss = model(input_ids=tokens, attention_mask=there.long(), labels=labels).loss
        optimiser.param_groups[0]["lr"] = 3e-2 * (1 - step / len(batches) if settings.schedule == "linear" else 1)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    values = found(MASK[None])[0]
    base = np.array(plain_score(make()))
    moved = np.abs(values - base)
    assert np.abs(values - plain_score(model)).max() < 1e-3 * moved.max()
    assert moved.min() > 1e-4
    np.testing.assert_allclose(found(np.zeros((1, 6)))[0], base, rtol=1e-5)  # U(0) is the model itself
    np.testing.assert_allclose(utility.score(None)[0], base, rtol=1e-5)


def test_a_coalition_is_worth_the_same_in_any_batch_and_beside_any_player(tiny_game):
    masks = np.random.default_rng(0).random((9, 6)) < 0.5
    together = tiny_game(masks)
    assert together.shape == (9, 2)
    np.testing.assert_allclose(np.concatenate([tiny_game(mask[None]) for mask in masks]), together, rtol=1e-5)
    np.testing.assert_allclose(game(adapters_at_once=2)(masks), together, rtol=1e-5)
    other = game(texts=["one more", *reversed(tiny.TEXTS)])
    moved = np.concatenate([np.zeros((9, 1), dtype=bool), masks[:, ::-1]], axis=1)
    np.testing.assert_allclose(other(moved), together, rtol=1e-5)
    assert other.frame == tiny_game.frame
    assert other.player_digests()[16:32] == tiny_game.player_digests()[-16:]


def test_compiled_stacks_keep_their_width_and_give_the_same_values(tiny_game, monkeypatch):
    masks = np.random.default_rng(1).random((6, 6)) < 0.5
    expected = tiny_game(masks)
    monkeypatch.setattr("torch.compile", lambda function, dynamic: function)
    utility = copy.copy(tiny_game.function)
    utility.compiles, utility._asked = True, 4
    utility.__dict__.pop("adapters_at_once", None)
    widths = []
    losses = models.Network.losses
    monkeypatch.setattr(
        models.Network,
        "losses",
        lambda *given, compiled: widths.append(len(given[3])) or losses(*given, compiled=compiled),
    )
    np.testing.assert_allclose(utility(masks), expected, rtol=1e-5)
    assert widths.count(4) >= 4  # all steps of the first stack; those of the second, of two, are not compiled
    assert set(widths) <= {4, 2, 1}


def test_values_over_training_seeds_are_averaged(tiny_game):
    mean = game(training_seeds=2)
    utility = mean.function
    samples = MASK[utility.documents.owner][None]
    each = [utility.score(utility.train(samples, number))[0] for number in (0, 1)]
    np.testing.assert_allclose(mean(MASK[None])[0], np.mean(each, axis=0), rtol=1e-6)
    np.testing.assert_allclose(tiny_game(MASK[None])[0], each[0], rtol=1e-6)
    assert np.abs(each[0] - each[1]).min() > 1e-4
    assert mean.cost(np.array([3])) == 2 * tiny_game.cost(np.array([3]))


def test_bits_per_byte_are_the_same_log_likelihood(tiny_game):
    tokens = tiny_game.function.tests.n_counted
    sizes = [len("it was the age of wisdom not to be"), len(tiny.TESTS["code"][0])]
    expected = tiny_game(MASK[None])[0] * tokens / np.array(sizes) / math.log(2)
    np.testing.assert_allclose(game(per="byte")(MASK[None])[0], expected, rtol=1e-6)


def test_a_folder_and_an_object_are_the_same_game(tiny_game, tmp_path):
    tiny.llama().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    loaded = game(tmp_path, tokenizer=None)
    assert loaded.fingerprint == tiny_game.fingerprint
    assert loaded.outputs == ("prose", "code")
    np.testing.assert_allclose(loaded(MASK[None]), tiny_game(MASK[None]), rtol=1e-6)
    given = tiny.llama()
    game(given)
    assert set(given.state_dict()) == set(tiny.llama().state_dict())  # the object is not changed
    assert given.training is False


def test_the_frame_follows_what_values_depend_on(tiny_game):
    other = tiny.llama()
    with torch.no_grad():
        other.model.layers[0].mlp.up_proj.weight[0, 0] += 1e-3
    changed = [game(other), game(per="byte"), game(rank=3), game(steps=4), game(tokenizer=tiny.tokenizer(290))]
    assert all(each.frame != tiny_game.frame for each in changed)
    assert all(each.player_digests() == tiny_game.player_digests() for each in changed)
    assert game(adapters_at_once=3, compile=True).fingerprint == tiny_game.fingerprint


def test_it_says_how_it_trains(tiny_game):
    words = tiny_game.function.describe()
    assert "2 epochs (steps grow with the tokens)" in words
    assert "players: 6 (2 were cut at the context)" in words
    assert "5 steps (the same for every coalition)" in game(steps=5).function.describe()


def test_a_worker_knows_the_attention_that_the_model_was_given(tiny_game):
    """A worker has loaded no model, so that transformers does not know this attention there."""
    from transformers import AttentionInterface, AttentionMaskInterface

    name = tiny_game.function.network.model.config._attn_implementation
    packed = cloudpickle.dumps(tiny_game)
    for interface in (AttentionInterface, AttentionMaskInterface):
        del interface._global_mapping[name]
    np.testing.assert_array_equal(cloudpickle.loads(packed)(MASK[None]), tiny_game(MASK[None]))


def test_losses_of_the_head_in_chunks_are_cross_entropies(monkeypatch):
    monkeypatch.setitem(models.LOGIT_BYTES, "cpu", 4 * 11 * 3)  # three tokens at a time
    generator = torch.Generator().manual_seed(0)
    states, weight, bias = (
        torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((8, 5), (11, 5), (11,))
    )
    targets, outer = torch.randint(0, 11, (8,), generator=generator), torch.rand(8, generator=generator).double()
    ours, theirs = states.clone().requires_grad_(), states.clone().requires_grad_()
    losses = models.HeadLoss.apply(ours, targets, weight, bias, models.loss_and_gradient)
    expected = torch.nn.functional.cross_entropy(theirs @ weight.T + bias, targets, reduction="none")
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(models.HeadLoss.apply(states, targets, weight, bias, None), expected)
    for found in (losses, expected):
        (found * outer).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_model_whose_head_is_not_all_gives_its_own_logits():
    class Doubled(transformers.LlamaForCausalLM):
        def forward(self, *args, **options):
            found = super().forward(*args, **options)
            found.logits = 2 * found.logits
            return found

    doubled = Doubled(tiny.llama().config).eval()
    doubled.load_state_dict(tiny.llama().state_dict())
    found = game(doubled)
    assert found.function.network.head is None
    np.testing.assert_allclose(found(np.zeros((1, 6)))[0], plain_score(doubled), rtol=1e-5)
    assert np.isfinite(found(MASK[None])).all()


def test_models_with_a_sliding_window_keep_their_attention():
    sizes = {"vocab_size": 300, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    config = transformers.MistralConfig(**sizes, **heads, sliding_window=8)
    model = transformers.MistralForCausalLM(config).eval()
    found = game(model)
    assert found.function.adapted.model.config._attn_implementation == "sdpa"
    np.testing.assert_allclose(found(np.zeros((1, 6)))[0], plain_score(model), rtol=1e-5)


def test_models_of_an_older_transformers_keep_their_attention():
    from fgsv.utilities.language.network import use_plain_attention

    config = SimpleNamespace(_attn_implementation="sdpa")
    use_plain_attention(SimpleNamespace(config=config), 8)  # it has no `set_attn_implementation`
    assert config._attn_implementation == "sdpa"


def test_a_model_that_mixes_samples_is_refused():
    model = tiny.llama()
    network = models.Network.of(model)
    adapted = layers.adapt(model, rank=2, targets=("q_proj",))
    models.check_apart(network, adapted)
    mixing = models.Network(model, lambda tokens: network.trunk(tokens).flip(0), network.head)
    with pytest.raises(ValueError, match="mixes samples"):
        models.check_apart(mixing, adapted)


def test_memory_of_a_backward_pass_is_counted():
    layer = torch.nn.Linear(10, 10)
    inputs = torch.ones(7, 10, requires_grad=True)
    assert memory.saved_bytes(lambda: (layer(inputs) ** 2).sum(), layer) == 2 * 4 * 7 * 10  # inputs and outputs


def test_adapters_at_once_on_a_cpu_keep_within_memory(tiny_game, monkeypatch):
    utility = copy.copy(tiny_game.function)
    monkeypatch.setattr("fgsv.utilities.language.fine_tuning.CPU_BYTES", 10)
    utility.__dict__.pop("adapters_at_once", None)
    assert utility.adapters_at_once == 1
