"""The copyright experiment: royalty shares of brands from a diffusion model."""
