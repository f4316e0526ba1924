"""Operations that are faster where weights are constants of a graph."""

from typing import Any

from keras.src.backend.common.stateless_scope import get_stateless_scope

from keras_mt.layers.types import Tensor


def fused_operations(*values: Tensor) -> Any:
    """The `operations` of the scope that has made all the values constants; None elsewhere.

    Layers do not import TensorFlow: `keras_mt.inference.constants.ConstantScope` brings the
    operations with the constants.
    """
    types = {getattr(getattr(x, "op", None), "type", None) for x in values}
    return getattr(get_stateless_scope(), "operations", None) if types <= {"Const"} else None
