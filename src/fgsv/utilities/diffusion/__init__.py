"""Diffusion models as games: players are images with prompts, and utilities are log-likelihoods."""

from fgsv.packages import optional

optional("torch", "diffusion models", "diffusion")  # once for all modules here, which import it as usual
