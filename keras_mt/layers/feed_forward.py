"""The position-wise feed-forward network."""

from typing import Any

import keras

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import BaseLayer
from keras_mt.layers.types import Activation, Shape, Tensor
from keras_mt.layers.validation import check_floats


@keras.saving.register_keras_serializable(package="keras_mt")
def gelu_tanh(x: Tensor) -> Tensor:
    """The activation GELU by its approximation with a hyperbolic tangent, as T5 has it."""
    return keras.activations.gelu(x, approximate=True)


@keras.saving.register_keras_serializable(package="keras_mt")
def gelu_sigmoid(x: Tensor) -> Tensor:
    """The activation GELU by its approximation `x sigmoid(1.702 x)`, as earlier Marians have it."""
    return x * keras.ops.sigmoid(1.702 * x)


@keras.saving.register_keras_serializable(package="keras_mt")
class FeedForward(BaseLayer):
    """Position-wise feed-forward network: `activation(x W_1 + b_1) W_2 + b_2`.

    Gated, it is `(activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2`: SwiGLU with the activation
    `"silu"`.

    Args:
        d_ff: Width of the inner layer.
        activation: Activation of the inner layer: a function, or the name that Keras has for it.
        dropout: Rate of dropout on the inner layer, at least 0 and below 1.
        gated: Whether the inner layer is multiplied by a gate, which then has the activation.
        use_bias: Whether the dense layers add a bias.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[..., width]`.
        training: Whether dropout is on.

    Returns:
        Float tensor of the shape of the inputs.

    Raises:
        ValueError: If `d_ff` is not a positive integer, `dropout` is out of range, or the inputs
            are not floats.

    Reference:
        Vaswani et al. 2017, section 3.3 (https://arxiv.org/abs/1706.03762); gates: Shazeer 2020,
        GLU Variants Improve Transformer (https://arxiv.org/abs/2002.05202).

    Example:

    >>> tuple(FeedForward(d_ff=64)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def __init__(
        self,
        d_ff: int,
        activation: Activation = "relu",
        dropout: float = 0.0,
        *,
        gated: bool = False,
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())

    def build(self, input_shape: Shape) -> None:
        inner_activation = None if self.gated else self.activation
        inner_shape = (*input_shape[:-1], self.d_ff)
        self.inner_dense = self._dense("inner", self.d_ff, input_shape, activation=inner_activation)
        self.output_dense = self._dense("output", input_shape[-1], inner_shape)
        if self.gated:
            self.gate_dense = self._dense(
                "gate", self.d_ff, input_shape, activation=self.activation
            )
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        check_floats(self.name, inputs)
        hidden = self.inner_dense(inputs)
        if self.gated:
            hidden = hidden * self.gate_dense(inputs)
        return self.output_dense(self.dropout_layer(hidden, training=training))
