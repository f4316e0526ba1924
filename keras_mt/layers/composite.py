"""What layers and models that are made of Keras's layers share, so that they survive `quantize`."""

from typing import Any

import keras


class Composite(keras.layers.Layer):
    """A layer made of layers; a file of it says which of them `quantize` has changed.

    `model.quantize("int8")` changes the `Dense` and embedding layers inside, and so the weights in
    a file: what is loaded from it must be changed before its weights are.
    """

    def get_build_config(self) -> dict[str, Any] | None:
        config = super().get_build_config()
        return config and {**config, **quantization(self)}

    def build_from_config(self, config: dict[str, Any]) -> None:
        super().build_from_config(config)
        quantize_again(self, config.get("quantized", {}))


def quantization(layer: keras.layers.Layer) -> dict[str, Any]:
    """For a config: how each layer inside of a layer or model is quantized; {} where none is.

    Example:

    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, name="inner")])
    >>> model.quantize("int8")
    >>> list(quantization(model)["quantized"])
    ['inner']
    """
    configs = {
        _place(each, layer): keras.saving.serialize_keras_object(each.quantization_config)
        for each in inside(layer)
        if each.quantization_mode is not None
    }
    return {"quantized": configs} if configs else {}


def quantize_again(layer: keras.layers.Layer, quantized: dict[str, Any]) -> None:
    """Quantizes the layers inside of a built layer or model as `quantization` said.

    Example:

    >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8)])
    >>> copy = keras.models.clone_model(model)
    >>> model.quantize("int8")
    >>> quantize_again(copy, quantization(model)["quantized"])
    >>> copy.layers[0].quantization_mode
    'int8'
    """
    for each in inside(layer) if quantized else ():
        config = quantized.get(_place(each, layer))
        if config is not None and each.quantization_mode is None:
            each.quantize(config=keras.saving.deserialize_keras_object(config))


def inside(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """The layers that a layer or model is made of, and those that they are made of."""
    # As in Keras's own example for DTypePolicyMap.
    return layer._flatten_layers(include_self=False)


def _place(inner, layer):
    return (inner.path or "").removeprefix(f"{layer.path}/")
