"""The bases of our layers, and what exports ask of them."""

import inspect
from typing import Any

import keras
from keras import ops
from keras.src.backend.common.stateless_scope import get_stateless_scope

from keras_mt.layers.types import Shape, Tensor
from keras_mt.layers.validation import check_arguments, check_sequences

# The module that reads and writes an argument of such a name.
_SERIALIZERS = {
    "activation": keras.activations,
    "kernel_initializer": keras.initializers,
    "bias_initializer": keras.initializers,
}


def arguments_of(names: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor, checked, from the `locals()` of its first line.

    `dtype`, `**kwargs`, private arguments and layers are left out.
    """
    names = {n: x for n, x in names.items() if n not in ("self", "dtype", "kwargs") and n[0] != "_"}
    arguments = {n: x for n, x in names.items() if not isinstance(x, keras.layers.Layer)}
    check_arguments(arguments)
    return arguments


def config_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The config that holds a constructor's arguments."""
    read = _SERIALIZERS.keys() & arguments.keys()
    serialized = {n: _SERIALIZERS[n].serialize(_SERIALIZERS[n].get(arguments[n])) for n in read}
    return {**arguments, **serialized}


class BaseLayer(keras.layers.Layer):
    """A layer that carries masks, and whose config holds its constructor's arguments."""

    def _record(self, names: dict[str, Any]) -> None:
        """Checks the constructor's arguments, among its `locals()`, and sets them as attributes."""
        self.supports_masking = True
        arguments = arguments_of(names)
        self._config = config_of(arguments)
        for name, value in arguments.items():
            module = _SERIALIZERS.get(name)
            setattr(self, name, module.get(value) if module else value)

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


class SequenceLayer(BaseLayer):
    """A layer whose inputs are `[batch, length, width]`, and whose outputs are like the first."""

    _inputs = ("inputs",)  # The arguments of `call` that are sequences.

    def _check_inputs(self, *inputs):
        check_sequences(self.name, *inputs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(self.call).bind(*args, **kwargs).arguments
        if given.get("return_attention_scores"):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)  # Traces the call.
        inputs = [given.get(name) for name in self._inputs]
        self._check_inputs(*inputs)
        return keras.KerasTensor(inputs[0].shape, dtype=self.compute_dtype)


def inner_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """All layers inside a layer or model, at any depth."""
    # As in Keras's own example for DTypePolicyMap.
    return layer._flatten_layers(include_self=False)


def export_operation(name: str, *arguments: Any) -> Any:
    """The value of an operation of an export's scope; None without such a scope or operation.

    Layers do not import TensorFlow: the scopes of `keras_mt.inference` bring these operations.
    """
    operation = getattr(getattr(get_stateless_scope(), "operations", None), name, None)
    return operation and operation(*arguments)


def count_rows(x: Tensor, length: int | Tensor) -> int | Tensor:
    """The number of rows of `x` for a reshape: -1 where each has a known `length`.

    LiteRT then knows all sizes before it runs. In an empty tensor -1 would be ambiguous.
    """
    return -1 if isinstance(length, int) and length > 0 else ops.shape(x)[0]
