"""Many adapters at once give the numbers of peft, one adapter after another."""

import copy
from functools import partial

import pytest
from heavy import Lazy, needs
from with_peft import with_peft

pytestmark = [pytest.mark.torch, needs("torch", "diffusers", "peft")]
torch, layers = Lazy("torch"), Lazy("fgsv.utilities.adapters.layers")
trainings, diffusion = Lazy("fgsv.utilities.adapters.training"), Lazy("fgsv.utilities.diffusion.fine_tuning")


def adapt(model, **options):
    return layers.adapt(model, targets=diffusion.TARGETS, **options)


@pytest.fixture(scope="module")
def unet():
    from diffusers import UNet2DConditionModel

    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=12,
        attention_head_dim=4,
        norm_num_groups=4,
    ).eval()


def batch(n, seed, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, 4, 4, 4, generator=generator).to(dtype or torch.float32),
        torch.randint(0, 1000, (n,), generator=generator),
        torch.randn(n, 5, 12, generator=generator).to(dtype or torch.float32),
        torch.randn(n, 4, 4, 4, generator=generator).to(dtype or torch.float32),
    )


def trained(adapted, weights, optimiser, **options):
    """Return the training of a stack of adapters of a UNet."""
    losses = partial(diffusion.denoising_losses, adapted.model)
    return trainings.Training(adapted, weights, optimiser, losses, **options)


@pytest.mark.parametrize("falling", [False, True])
def test_training_equals_peft_one_at_a_time(unet, falling):
    # in float64: Adam divides by the root of the second moment, and so makes steps of gradients that are all
    # rounding
    unet = copy.deepcopy(unet).double()
    steps, valid_counts = (4, 3, 1), (3, 2, 1)  # the stack is sorted by falling number of steps
    adapted = adapt(copy.deepcopy(unet), rank=4, alpha=6)
    start = adapted.initial(seed=5).double()
    optimiser = trainings.AdamW(learning_rate=1e-2)
    training = trained(adapted, start.repeat(3, 1), optimiser)
    losses = [[] for _ in steps]
    for t in range(max(steps)):
        n_active = sum(t < n for n in steps)
        pieces = [batch(3, seed=10 * i + t, dtype=torch.float64) for i in range(n_active)]
        valid = torch.tensor([[k < valid_counts[i] for k in range(3)] for i in range(n_active)])
        pace = torch.tensor([1 - t / n if falling else 1.0 for n in steps[:n_active]])
        for i, loss in enumerate(training.step((*map(torch.cat, zip(*pieces, strict=True)), valid), pace)):
            losses[i].append(float(loss))

    for i, n_steps in enumerate(steps):
        model = with_peft(copy.deepcopy(unet), adapted, start, rank=4, alpha=6)
        own = [weight for weight in model.parameters() if weight.requires_grad]
        assert sum(weight.numel() for weight in own) == adapted.n_weights
        oracle = torch.optim.AdamW(own, lr=1e-2)
        schedule = torch.optim.lr_scheduler.LambdaLR(oracle, lambda t, n=n_steps: 1 - t / n if falling else 1.0)
        for t in range(n_steps):
            noisy, timesteps, prompts, target = (
                part[: valid_counts[i]] for part in batch(3, 10 * i + t, torch.float64)
            )
            predicted = model(noisy, timesteps, encoder_hidden_states=prompts).sample
            loss = torch.nn.functional.mse_loss(predicted, target)
            oracle.zero_grad()
            loss.backward()
            oracle.step()
            schedule.step()
            assert losses[i][t] == pytest.approx(loss.item(), rel=1e-9)
        state = model.state_dict()
        for name, weight in adapted.named(training.weights[i]).items():
            expected = state[name.replace(".weight", ".default.weight")]
            torch.testing.assert_close(weight, expected, rtol=0, atol=1e-8, msg=name)
        assert (training.weights[i] - start).abs().mean() > 1e-3


def test_inference_equals_peft_and_using_unbinds(unet):
    adapted = adapt(copy.deepcopy(unet))
    generator = torch.Generator().manual_seed(1)
    stack = 0.1 * torch.randn(3, adapted.n_weights, generator=generator)
    noisy, timesteps, prompts, _ = batch(6, seed=3)
    with adapted.using(stack) as model:
        together = model(noisy, timesteps, encoder_hidden_states=prompts).sample
    with torch.no_grad():
        for i in range(3):
            own = slice(2 * i, 2 * i + 2)
            alone = with_peft(copy.deepcopy(unet), adapted, stack[i])(noisy[own], timesteps[own], prompts[own]).sample
            torch.testing.assert_close(together[own], alone, rtol=1e-4, atol=1e-5)
        plain = unet(noisy, timesteps, prompts).sample
        assert (plain - together).abs().max() > 1e-2
        torch.testing.assert_close(adapted.model(noisy, timesteps, prompts).sample, plain)


def test_initial_weights_change_nothing_and_follow_the_seed(unet):
    adapted = adapt(copy.deepcopy(unet))
    noisy, timesteps, prompts, _ = batch(4, seed=3)
    with adapted.using(adapted.initial(0).repeat(2, 1)) as model:
        started = model(noisy, timesteps, prompts).sample
    with torch.no_grad():
        torch.testing.assert_close(started, unet(noisy, timesteps, prompts).sample)
    assert torch.equal(adapted.initial(3), adapted.initial(3))
    assert not torch.equal(adapted.initial(3), adapted.initial(4))
    down = next(iter(adapted.named(adapted.initial(3)).values()))
    assert down.abs().max() <= down.shape[1] ** -0.5


def test_finished_adapters_stay_as_they_are(unet):
    adapted = adapt(copy.deepcopy(unet), rank=2)
    training = trained(adapted, adapted.initial(0).repeat(2, 1), trainings.AdamW())
    training.step((*batch(2, seed=0), torch.ones(2, 1, dtype=torch.bool)), torch.ones(2))
    before = training.weights[1].clone()
    training.step((*batch(1, seed=1), torch.ones(1, 1, dtype=torch.bool)), torch.ones(1))
    assert torch.equal(training.weights[1], before)
    assert not torch.equal(training.weights[0], before)
    # as where steps are recorded for more adapters than still train
    padded = training.step((*batch(2, seed=2), torch.tensor([[True], [False]])), torch.tensor([1, 0]))
    assert torch.equal(training.weights[1], before)
    assert padded[1] == 0
    ten = adapted.initial(0).repeat(10, 1)
    for record, widths in ((False, [10, 7, 3, 2, 1]), (True, [10, 8, 4, 2, 2])):  # few widths are recorded
        training = trained(adapted, ten, trainings.AdamW(), record=record)
        assert [training.width(n_active) for n_active in (10, 7, 3, 2, 1)] == widths


def test_a_model_without_attention_is_refused():
    from diffusers import UNet2DModel

    plain = UNet2DModel(
        sample_size=4,
        block_out_channels=(8, 8),
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        norm_num_groups=4,
        layers_per_block=1,
        add_attention=False,
    )
    with pytest.raises(ValueError, match=r"no projections to adapt: .* named to_q, .* it has linear_1"):
        adapt(plain)
    with pytest.raises(ValueError, match="rank of at least 1"):
        adapt(plain, rank=0)


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is():
    def step(number):
        if number == 1:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")
        return 2 * number

    with pytest.warns(UserWarning, match="without a CUDA graph: operation not permitted when stream is capturing$"):
        taken = trainings.recorded(step, (torch.tensor(1),))
    assert taken is step
