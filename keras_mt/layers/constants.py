"""Weights that are constants of a graph, for which there are faster operations."""

from types import ModuleType

from keras_mt.layers.types import Tensor

# keras_mt.translation.fused sets it to itself: layers do not import TensorFlow.
fused: ModuleType | None = None


def are_constants(*values: Tensor) -> bool:
    """Whether all values are constants of a graph that is being traced, and `fused` is there."""
    types = [getattr(getattr(x, "op", None), "type", None) for x in values]
    return fused is not None and set(types) == {"Const"}
