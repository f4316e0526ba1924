"""Checks of constructor arguments and shapes, with messages that name the argument or the layer."""

from typing import Any

from keras_mt.layers.types import Shape


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


def check_divisible(**arguments: int) -> None:
    """Raises ValueError unless the first of two keyword arguments is a multiple of the second."""
    (name, value), (by, divisor) = arguments.items()
    if value % divisor:
        raise ValueError(
            f"{name} must be divisible by {by}. Received: {name}={value}, {by}={divisor}"
        )


def check_one_of(allowed: tuple, **arguments: Any) -> None:
    """Raises ValueError unless every keyword argument is one of the allowed values."""
    for name, value in arguments.items():
        if value not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise ValueError(f"{name} must be one of {listed}. Received: {name}={value!r}")


def check_sequences(layer: str, *shapes: Shape) -> None:
    """Raises ValueError unless every shape has axes for batch, length and width."""
    for shape in shapes:
        # Without the batch, each position would pass for a sequence of its own.
        if len(shape) < 3:
            raise ValueError(
                f"{layer} takes [batch, length, width]. Received: shape {tuple(shape)}"
            )
