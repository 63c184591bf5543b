"""Diffusion models as games: players are images with prompts, utilities are log-likelihoods."""
