"""Reverse diffusion against diffusers' scheduler, and log-likelihoods against scipy."""

import numpy as np
import pytest
from heavy import Lazy, needs
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

pytestmark = [pytest.mark.torch, needs("torch", "diffusers")]
torch, diffusers = Lazy("torch"), Lazy("diffusers")
likelihood = Lazy("fgsv.utilities.diffusion.likelihood")


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_reverse_steps_are_those_of_the_scheduler(prediction):
    scheduler = diffusers.DDPMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        clip_sample=False,
        prediction_type=prediction,
    )
    process = likelihood.ReverseProcess.of(scheduler, 4)
    assert process.timesteps == tuple(scheduler.timesteps.tolist())
    generator = torch.Generator().manual_seed(0)
    for step, timestep in enumerate(process.timesteps):
        x, predicted = torch.randn(2, 3, 4, 2, 2, generator=generator).unbind(0)
        seeds = (torch.Generator().manual_seed(step), torch.Generator().manual_seed(step))
        expected = scheduler.step(predicted, timestep, x, generator=seeds[0]).prev_sample
        mean = process.from_x0[step] * process.denoised(step, x, predicted) + process.from_x[step] * x
        noise = torch.randn(x.shape, generator=seeds[1]) if step < 3 else 0.0
        torch.testing.assert_close(mean + process.deviation[step] * noise, expected, rtol=1e-4, atol=1e-5)
    assert process.last_variance == pytest.approx(float(scheduler.betas[0]), rel=1e-4)
    with pytest.raises(ValueError, match="1 to 1000 steps"):
        likelihood.ReverseProcess.of(scheduler, 0)
    with pytest.raises(ValueError, match="clip_sample"):
        likelihood.ReverseProcess.of(diffusers.DDPMScheduler(), 4)


def test_log_likelihood_is_the_log_of_the_mean_density():
    rng = np.random.default_rng(0)
    means, images = rng.normal(size=(3, 2, 4, 1, 2, 3)), rng.normal(size=(2, 5, 1, 2, 3))
    found = likelihood.log_likelihood(torch.tensor(means), torch.tensor(images), variance=0.3).numpy()
    for b in range(3):
        for q in range(2):
            scores = [
                logsumexp(
                    [multivariate_normal.logpdf(image.ravel(), mean.ravel(), 0.3) for mean in means[b, q]],
                    b=1 / 4,
                )
                for image in images[q]
            ]
            assert found[b, q] == pytest.approx(np.mean(scores) / 6)
    far = likelihood.log_likelihood(torch.tensor(means), torch.tensor(images), variance=1e-6)
    assert torch.isfinite(far).all()  # densities of exp(-10^6) underflow, their logarithms do not
