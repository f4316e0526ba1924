"""How layers and models made of Keras's layers are saved and loaded after `quantize`."""

from typing import Any

import keras


class Composite(keras.layers.Layer):
    """A layer made of layers, whose saved config says which of them `quantize` has changed.

    `model.quantize("int8")` changes the `Dense` and embedding layers inside, and so the weights in
    a file: a layer loaded from it must be quantized before its weights are loaded.
    """

    def get_build_config(self) -> dict[str, Any] | None:
        config = super().get_build_config()
        return config and {**config, **quantization(self)}

    def build_from_config(self, config: dict[str, Any]) -> None:
        super().build_from_config(config)
        quantize_again(self, config.get("quantized", {}))


def quantization(layer: keras.layers.Layer) -> dict[str, Any]:
    """How each layer inside a layer or model is quantized, for a config; {} where none is.

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
    """Quantizes the layers inside a built layer or model as `quantization` said.

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
    """All layers inside a layer or model, at any depth."""
    # As in Keras's own example for DTypePolicyMap.
    return layer._flatten_layers(include_self=False)


def _place(inner, layer):
    return (inner.path or "").removeprefix(f"{layer.path}/")
