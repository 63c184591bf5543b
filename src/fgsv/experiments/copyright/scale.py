"""How large a run of the copyright experiment is."""

from __future__ import annotations

from dataclasses import dataclass, field

from fgsv.experiments.copyright.small_model import Pretraining, SmallModel

from fgsv.utilities.diffusion.game import Settings


@dataclass(frozen=True)
class Scale:
    """Numbers of images, sizes of the model, lengths of the trainings, and when the run stops."""

    per_brand: int = 30
    """Images of each brand."""
    large: int = 20
    """Images in the larger part of a split brand."""
    generated: int = 20
    """Generated images for each prompt; their likelihood is the utility."""
    model: SmallModel = field(default_factory=SmallModel)
    pretraining: Pretraining = field(default_factory=Pretraining)
    settings: Settings = field(default_factory=Settings)
    stderr: float = 0.03
    """The run stops when the standard error of every share is at most this."""
    budget: int = 20_000
    """The most evaluations that the run may take."""
    round_size: int = 512
    threads: int | None = None
    """Threads of torch on a CPU (None: torch's choice). With small tensors, several only wait for each other."""


FULL = Scale(
    pretraining=Pretraining(autoencoder_steps=2000, steps=3000),
    settings=Settings(learning_rate=3e-3, guidance=2.0, schedule="linear"),
)
"""120 images, four prompts, and the paper's settings except three. The small model learns a brand in 300 steps at a
larger learning rate than Stable Diffusion's 1e-4; a rate that falls to zero makes the utility smoother; a guidance of
7.5 would saturate the colours. Rounds of 512 evaluations end where the estimator's epochs do."""

SMALL = Scale(
    per_brand=6,
    large=4,
    generated=6,
    model=SmallModel(
        image_size=16,
        autoencoder_channels=(16, 32, 32),
        channels=(32, 64),
        text_width=32,
        text_layers=1,
        norm_groups=8,
    ),
    pretraining=Pretraining(
        autoencoder_steps=400, autoencoder_batch=32, autoencoder_rate=4e-3, steps=800, batch=32, rate=2e-3
    ),
    settings=Settings(
        learning_rate=1e-2, epochs=8, schedule="linear", denoising_steps=8, guidance=2.0, trajectories=6
    ),
    budget=98,
    round_size=32,
    threads=1,
)
"""Two or three minutes on a CPU: enough to see that the parts work, too little to compare brands."""
