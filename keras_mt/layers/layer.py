"""The base of our layers: configs, what `quantize` changed in them, and operations of exports."""

import inspect
from typing import Any

import keras
from keras.src.backend.common.stateless_scope import get_stateless_scope

from keras_mt.layers.types import Shape, Tensor
from keras_mt.layers.validation import check_sequences

# The module that reads and writes an argument of such a name.
_SERIALIZERS = {
    "activation": keras.activations,
    "kernel_initializer": keras.initializers,
    "bias_initializer": keras.initializers,
}


def config_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The config of a layer or model, from the `locals()` of its constructor's first line.

    `dtype`, `**kwargs`, private arguments and layers are left out.
    """
    given = {
        name: value
        for name, value in arguments.items()
        if name not in ("self", "dtype", "kwargs")
        and not name.startswith("_")
        and not isinstance(value, keras.layers.Layer)
    }
    for name, module in _SERIALIZERS.items():
        if name in given:
            given[name] = module.serialize(module.get(given[name]))
    return given


class BaseLayer(keras.layers.Layer):
    """A layer whose config holds its constructor's arguments, and which `quantize` may change.

    `model.quantize("int8")` changes the `Dense` and embedding layers inside, and so the weights in
    a file: a layer loaded from it must be quantized before its weights are loaded.
    """

    def _record(self, arguments: dict[str, Any]) -> None:
        """Sets each of the constructor's arguments, its `locals()`, as an attribute."""
        self._config = config_of(arguments)
        for name in self._config:
            module = _SERIALIZERS.get(name)
            setattr(self, name, module.get(arguments[name]) if module else arguments[name])

    def _dense(self, name, units, input_shape, **options):
        """A built `Dense` layer, whose `use_bias` is this layer's unless it is given."""
        options = {"use_bias": self.use_bias, "dtype": self.dtype_policy, **options}
        dense = keras.layers.Dense(units, name=name, **options)
        dense.build(input_shape)
        return dense

    def compute_output_shape(self, input_shape: Shape, *others: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config}

    def get_build_config(self) -> dict[str, Any] | None:
        config = super().get_build_config()
        return config and {**config, **quantization(self)}

    def build_from_config(self, config: dict[str, Any]) -> None:
        super().build_from_config(config)
        quantize_again(self, config.get("quantized", {}))


class SequenceLayer(BaseLayer):
    """A layer whose inputs are `[batch, length, width]`, and whose outputs are like the first."""

    _inputs = ("inputs",)  # The arguments of `call` that are sequences.
    _ranks = (3,)

    def _check_inputs(self, *inputs):
        check_sequences(self.name, *inputs, ranks=self._ranks)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(self.call).bind(*args, **kwargs).arguments
        if given.get("return_attention_scores"):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)  # Traces the call.
        inputs = [given.get(name) for name in self._inputs]
        self._check_inputs(*inputs)
        return keras.KerasTensor(inputs[0].shape, dtype=self.compute_dtype)


def quantization(layer: keras.layers.Layer) -> dict[str, Any]:
    """The quantization of each layer inside a layer or model, for a config; {} if there is none."""
    configs = {
        _place(inner, layer): keras.saving.serialize_keras_object(inner.quantization_config)
        for inner in inner_layers(layer)
        if inner.quantization_mode is not None
    }
    return {"quantized": configs} if configs else {}


def quantize_again(layer: keras.layers.Layer, quantized: dict[str, Any]) -> None:
    """Quantizes the layers inside a built layer or model as `quantization` said."""
    for inner in inner_layers(layer) if quantized else ():
        config = quantized.get(_place(inner, layer))
        if config is not None and inner.quantization_mode is None:
            inner.quantize(config=keras.saving.deserialize_keras_object(config))


def inner_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """All layers inside a layer or model, at any depth."""
    # As in Keras's own example for DTypePolicyMap.
    return layer._flatten_layers(include_self=False)


def _place(inner, layer):
    return (inner.path or "").removeprefix(f"{layer.path}/")


def fused_operations(*values: Tensor) -> Any:
    """The `operations` of an export's scope, if all the values are constants there; else None.

    Layers do not import TensorFlow: `keras_mt.inference.constants.ConstantScope` brings them.
    """
    types = {getattr(getattr(x, "op", None), "type", None) for x in values}
    return getattr(get_stateless_scope(), "operations", None) if types <= {"Const"} else None
