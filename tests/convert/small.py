"""A small model of each architecture, with weights that make unlike translations."""

import keras
from runs import disturb

from keras_mt.models import ARCHITECTURES, ensure_built

SIZES = {"num_layers": 1, "num_heads": 4, "d_ff": 48, "max_length": 64, "d_model": 32}


def small(name, tokenizer):
    """One of `ARCHITECTURES`, with the arguments of its preset where they are not sizes."""
    keras.utils.set_random_seed(1)
    architecture = ARCHITECTURES[name]
    preset = architecture.presets["tiny"]["model"]
    sizes = {n: size for n, size in SIZES.items() if n in preset or n == "max_length"}
    if name == "mixture_of_experts":
        sizes["sparse_step"] = 1
    model = ensure_built(architecture.from_preset("tiny", vocab_size=tokenizer.vocab_size, **sizes))
    return disturb(model)
