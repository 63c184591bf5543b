"""LoRA adapters over one frozen model, many of them trained at once."""

from fgsv.packages import optional

optional("torch", "adapters", "diffusion")  # once for all modules here, which import it as usual
