"""A diffusion model that is built in no time."""


def tiny_model(size):
    """Return the smallest model for images of this many pixels a side."""
    from experiments.diffusion_model import SmallModel

    return SmallModel(
        image_size=size,
        autoencoder_channels=(8, size),
        channels=(8, 16),
        text_width=size,
        text_layers=1,
        heads=4,
        norm_groups=4,
    )
