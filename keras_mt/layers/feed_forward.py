"""The position-wise feed-forward network."""

from typing import Any

import keras

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.types import Activation, Shape, Tensor
from keras_mt.layers.validation import check_positive, check_rate


@keras.saving.register_keras_serializable(package="keras_mt")
class FeedForward(keras.layers.Layer):
    """Position-wise feed-forward network: `activation(x W_1 + b_1) W_2 + b_2`.

    Args:
        d_ff: Width of the inner layer.
        activation: Activation of the inner layer: a function, or the name that Keras has for it.
        dropout: Rate of dropout on the inner layer, at least 0 and below 1.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[..., width]`.
        training: Whether dropout is on.

    Returns:
        Float tensor of the shape of the inputs.

    Raises:
        ValueError: If `d_ff` is not a positive integer or `dropout` is out of range.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 3.3
        (https://arxiv.org/abs/1706.03762).

    Example:

    >>> tuple(FeedForward(d_ff=64)(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def __init__(
        self, d_ff: int, activation: Activation = "relu", dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(d_ff=d_ff)
        check_rate(dropout=dropout)
        self.d_ff = d_ff
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.inner_dense = keras.layers.Dense(
            self.d_ff, activation=self.activation, dtype=self.dtype_policy, name="inner"
        )
        self.inner_dense.build(input_shape)
        self.output_dense = keras.layers.Dense(
            input_shape[-1], dtype=self.dtype_policy, name="output"
        )
        self.output_dense.build((*input_shape[:-1], self.d_ff))
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        hidden = self.dropout_layer(self.inner_dense(inputs), training=training)
        return self.output_dense(hidden)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_ff": self.d_ff,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
        }
