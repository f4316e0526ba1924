"""Low-rank adapters: fine-tuning that trains and keeps a fraction of the weights."""

import hashlib
from collections.abc import Sequence

import keras
import numpy as np

from keras_mt.errors import InputError
from keras_mt.layers.layer import inner_layers


class Adapters:
    """Keras's LoRA (https://arxiv.org/abs/2106.09685) on each trainable dense layer of a model.

    All its other weights are frozen. `weights` are what is trained: `A` `[inputs, rank]` and `B`
    `[rank, units]` of one layer after the other; a kernel `W` becomes `W + A B`.
    """

    def __init__(self, model: keras.Model, rank: int):
        self._plain = list(model.weights)
        for weight in self._plain:
            weight.trainable = False
        self._layers = {}  # By the kernel, which is hidden once there is an adapter.
        for layer in inner_layers(model):
            dense = isinstance(layer, (keras.layers.Dense, keras.layers.EinsumDense))
            if dense and layer.trainable and not layer.lora_enabled:
                self._layers[id(layer.kernel)] = layer
                layer.enable_lora(rank)
        if not self._layers:
            raise InputError(
                f"{model.name} has no trainable dense layer for an adapter: train it without lora."
            )
        pairs = [(layer.lora_kernel_a, layer.lora_kernel_b) for layer in self._layers.values()]
        self.weights = [weight for pair in pairs for weight in pair]

    def merged(self, values: Sequence[Sequence[np.ndarray]] | None = None) -> list[np.ndarray]:
        """The weights of an equivalent model without adapters, the mean over sets of values."""
        values = [[weight.numpy() for weight in self.weights]] if values is None else values
        changes = {}
        for i, (kernel, layer) in enumerate(self._layers.items()):
            change = sum(np.matmul(*each[2 * i : 2 * i + 2]) for each in values) / len(values)
            changes[kernel] = change * (layer.lora_alpha / layer.lora_rank)
        return [weight.numpy() + changes.get(id(weight), 0) for weight in self._plain]


def digest(model: keras.Model) -> str:
    """The SHA-256 hash of a model's weights."""
    found = hashlib.sha256()
    for weight in model.weights:
        found.update(np.ascontiguousarray(weight.numpy()))
    return found.hexdigest()
