"""One adapter of a stack in peft: the oracle of the tests of adapters."""

from heavy import Lazy

peft = Lazy("peft")


def with_peft(model, adapted, weights, rank=8, alpha=8, **options):
    """Return a model with an adapter of peft that starts from one of a stack, (P,)."""
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=list(adapted.layers), **options)
    found = peft.inject_adapter_in_model(config, model)
    state = {name.replace(".weight", ".default.weight"): part for name, part in adapted.named(weights).items()}
    assert not found.load_state_dict(state, strict=False).unexpected_keys
    assert sum(each.numel() for each in found.parameters() if each.requires_grad) == adapted.n_weights
    return found
