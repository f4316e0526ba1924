"""Checks of constructor arguments and shapes, with messages that name the argument or the layer."""

from typing import Any

import keras

from keras_mt.layers.types import Shape, Tensor

_SIZES = {
    *("vocab_size", "target_vocab_size", "d_model", "max_length", "num_buckets", "max_distance"),
    *("d_ff", "encoder_d_ff", "decoder_d_ff", "key_dim", "value_dim", "num_key_value_heads"),
    *("num_layers", "num_encoder_layers", "num_decoder_layers"),
    *("num_heads", "num_encoder_heads", "num_decoder_heads"),
    *("num_experts", "top_k", "experts_per_token", "sparse_step"),
}


def check_arguments(arguments: dict[str, Any]) -> None:
    """Raises ValueError for a size or a dropout, among a constructor's arguments, that is none."""
    given = {name: value for name, value in arguments.items() if value is not None}
    check_positive(**{name: value for name, value in given.items() if name in _SIZES})
    check_rate(**{name: value for name, value in given.items() if name == "dropout"})


def check_positive(**arguments: int) -> None:
    """Raises ValueError unless every keyword argument is a positive int."""
    for name, value in arguments.items():
        # Keras refuses NumPy's integers as sizes, without naming the argument.
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a positive int. Received: {name}={value!r}")


def check_rate(**arguments: float) -> None:
    """Raises ValueError unless every keyword argument lies in 0 <= rate < 1."""
    for name, value in arguments.items():
        if not 0 <= value < 1:
            raise ValueError(f"{name} must be at least 0 and below 1. Received: {name}={value!r}")


def check_one_of(allowed: tuple, **arguments: Any) -> None:
    """Raises ValueError unless every keyword argument is one of the allowed values."""
    for name, value in arguments.items():
        if value not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise ValueError(f"{name} must be one of {listed}. Received: {name}={value!r}")


def check_sequences(layer: str, *inputs: Tensor | Shape | None) -> None:
    """Raises ValueError unless all inputs are floats `[batch, length, width]` of one batch size."""
    given = [x for x in inputs if x is not None]
    shapes = [tuple(getattr(x, "shape", x)) for x in given]
    for x, shape in zip(given, shapes, strict=True):
        # Without the batch, each position would pass for a sequence of its own.
        if len(shape) != 3:
            raise ValueError(f"{layer} takes [batch, length, width]. Received: shape {shape}")
        check_floats(layer, x)
    if len({shape[0] for shape in shapes} - {None}) > 1:
        raise ValueError(
            f"{layer} takes inputs of the same batch size. "
            f"Received: shapes {' and '.join(map(str, shapes))}"
        )


def check_floats(layer: str, x: Tensor | Shape) -> None:
    """Raises ValueError for a tensor of integers or booleans, which Keras would not convert."""
    dtype = getattr(x, "dtype", None)
    if dtype is not None and not keras.backend.is_float_dtype(dtype):
        dtype = keras.backend.standardize_dtype(dtype)
        raise ValueError(
            f"{layer} takes floats, such as embedded tokens. Received: {dtype} of shape "
            f"{tuple(x.shape)}"
        )
