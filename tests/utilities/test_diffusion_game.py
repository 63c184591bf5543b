"""The diffusion game: utilities against peft and a plain loop, in any batch and in any pieces."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from heavy import Lazy, needs
from tiny_diffusion import tiny_model
from with_peft import with_peft

pytestmark = [pytest.mark.torch, needs("torch", "diffusers", "peft")]
torch, diffusers = Lazy("torch"), Lazy("diffusers")
small_model, diffusion = Lazy("experiments.diffusion_model"), Lazy("fgsv.utilities.diffusion.fine_tuning")
likelihood = Lazy("fgsv.utilities.diffusion.likelihood")
trainings = Lazy("fgsv.utilities.adapters.training")

SETTINGS = {"rank": 2, "alpha": 4, "learning_rate": 1e-2, "batch": 2, "epochs": 2}
SETTINGS |= {"denoising_steps": 3, "trajectories": 2}
QUERIES = {"red": "A logo by Red", "blue": "A logo by Blue"}


@pytest.fixture(scope="module")
def model():
    return small_model.build_model(tiny_model(8))


@pytest.fixture(scope="module")
def game(model):
    generator = torch.Generator().manual_seed(2)
    shape = model.latent_shape
    return diffusion.DiffusionGame(
        copy.deepcopy(model),
        torch.randn(5, *shape, generator=generator),
        ["A logo by Red"] * 3 + ["A logo by Blue"] * 2,
        QUERIES,
        torch.randn(2, 3, *shape, generator=generator),
        diffusion.Settings(**SETTINGS),
        adapters_at_once=3,
    )


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_utility_equals_peft_and_a_plain_loop(model, game, schedule):
    """Fine-tune with peft, draw each trajectory alone with the scheduler's formulas, and score it."""
    game = copy.copy(game)
    game.settings = settings = diffusion.Settings(**SETTINGS, schedule=schedule)
    mask = np.array([True, True, False, False, True])
    start = game.adapted.initial(settings.seed)
    unet = with_peft(copy.deepcopy(model.unet), game.adapted, start, rank=2, alpha=4)
    trained = [weight for weight in unet.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-2)
    n_steps = 4  # two epochs of two batches
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda t: 1 - t / n_steps if schedule == "linear" else 1)
    rng = np.random.default_rng(settings.seed)
    for epoch in range(2):
        members = torch.tensor([player for player in rng.permutation(5) if mask[player]])
        for batch in members.split(2):
            noise, t = game.data.noise[epoch, batch], game.data.timesteps[epoch, batch]
            noisy = model.scheduler.add_noise(game.data.latents[batch], noise, t)
            texts = model.embed([("A logo by Red", "A logo by Blue")[int(p >= 3)] for p in batch])
            loss = torch.nn.functional.mse_loss(unet(noisy, t, texts).sample, noise)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rates.step()
    scores = []
    scheduler = diffusers.DDPMScheduler.from_config(model.scheduler.config)
    scheduler.set_timesteps(3)
    empty = model.embed([""])
    for q, text in enumerate(QUERIES.values()):
        ends = []
        for j in range(2):
            x = game._noise.start[2 * q + j][None]
            for step, t in enumerate(scheduler.timesteps):
                with torch.no_grad():
                    free, asked = unet(x, t, empty).sample, unet(x, t, model.embed([text])).sample
                guided = free + settings.guidance * (asked - free)
                x0 = (x - (1 - scheduler.alphas_cumprod[t]).sqrt() * guided) / scheduler.alphas_cumprod[t].sqrt()
                if step == 2:
                    ends.append(x0)
                else:
                    x = game.process.from_x0[step] * x0 + game.process.from_x[step] * x
                    x = x + game.process.deviation[step] * game._noise.steps[step][2 * q + j][None]
        mean = torch.cat(ends)[None, None]
        score = likelihood.log_likelihood(mean, game.generated[q][None], game.process.last_variance)
        scores.append(float(score[0, 0]))
    found = game(mask[None])[0]
    np.testing.assert_allclose(found, scores, rtol=1e-4)
    assert np.abs(found - game(np.zeros((1, 5)))[0]).min() > 20 * 1e-4 * np.abs(found).max()


def test_a_coalition_scores_the_same_in_any_batch(game):
    masks = np.random.default_rng(0).random((7, 5)) < 0.5
    together = game(masks)
    assert together.shape == (7, 2)
    alone = np.concatenate([game(mask[None]) for mask in masks])
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    assert np.unique(together[:, 0].round(6)).size == np.unique(masks, axis=0).shape[0]


def test_the_empty_coalition_is_the_model_without_adapters(game):
    means = game._trajectories(None, game._noise, 2)
    expected = likelihood.log_likelihood(means, game.generated, game.process.last_variance)[0]
    np.testing.assert_allclose(game(np.zeros((1, 5)))[0], expected, rtol=1e-5)


def test_trajectories_are_the_same_in_pieces(game):
    weights = 0.1 * torch.randn(2, game.adapted.n_weights, generator=torch.Generator().manual_seed(0))
    whole = game._trajectories(weights, game._noise, 2)
    game.trajectories_at_once = 2  # one trajectory of each adapter at a time
    try:
        pieces = game._trajectories(weights, game._noise, 2)
    finally:
        del game.trajectories_at_once
    torch.testing.assert_close(pieces, whole, rtol=1e-3, atol=1e-4)


def test_without_guidance_only_the_prompt_counts(game):
    noise = likelihood.Noise.draw(2, 3, game.model.latent_shape, 0, torch.device("cpu"))
    prompts, empty = game._queries[:1].expand(2, -1, -1), game._queries[-1]
    plain = likelihood.sample(game.adapted, None, game.process, noise, prompts, empty, 1.0)
    other = likelihood.sample(game.adapted, None, game.process, noise, prompts, 5 * empty, 1.0)
    assert torch.equal(plain, other)


def test_fingerprint_follows_the_content(model, game):
    def again(**change):
        settings = diffusion.Settings(**SETTINGS, **change)
        return diffusion.DiffusionGame(
            copy.deepcopy(model), game.data.latents, ["A logo by Red"] * 3 + ["A logo by Blue"] * 2, QUERIES,
            game.generated, settings,
        )  # fmt: skip

    assert again().fingerprint == game.fingerprint
    assert again(guidance=2.0).fingerprint != game.fingerprint
    other = again()
    betas = other.model.scheduler.config.beta_end / 2
    other.model = replace(other.model, scheduler=diffusers.DDPMScheduler(beta_end=betas, clip_sample=False))
    assert other.fingerprint != game.fingerprint
    moved = again()
    with torch.no_grad():
        next(iter(moved.model.unet.parameters())).add_(1e-3)
    assert moved.fingerprint != game.fingerprint


def test_cost_grows_with_the_training_steps(game):
    sampled = 2 * 4 * 3  # guidance, trajectories of all prompts, denoising steps
    assert game.cost(np.array([0, 1, 2, 3, 5])).tolist() == [sampled + 2 * 2 * s for s in (0, 2, 2, 4, 6)]


def test_settings_are_checked():
    with pytest.raises(ValueError, match="trajectories must be at least 1"):  # test_language_input has the others
        diffusion.Settings(trajectories=0)
    paper = diffusion.Settings()
    assert (paper.rank, paper.alpha, paper.learning_rate, paper.batch, paper.epochs) == (8, 8, 1e-4, 4, 10)
    assert (paper.denoising_steps, paper.guidance, paper.trajectories) == (25, 7.5, 20)
    assert trainings.AdamW(paper.learning_rate) == trainings.AdamW()


def test_recorded_training_gives_the_same_adapters_in_the_order_of_their_coalitions(game):
    """On a CPU nothing is recorded, but all else is as on a GPU: widths, warm-up, copied inputs, restored state."""
    masks = np.random.default_rng(1).random((9, 5)) < 0.6
    train = partial(diffusion.fine_tune, game.model, game.adapted, game.data)
    settings = diffusion.Settings(**SETTINGS, schedule="linear")
    plain, recorded = (train(masks, settings, record=record) for record in (False, True))
    moved = (plain - game.adapted.initial(settings.seed)).abs().mean()
    assert (recorded - plain).abs().mean() < 1e-3 * moved
    for row in range(9):
        assert (train(masks[row : row + 1], settings)[0] - plain[row]).abs().mean() < 1e-3 * moved
