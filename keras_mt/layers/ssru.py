"""The simpler simple recurrent unit."""

from typing import Any

import keras
from keras import ops

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import SequenceLayer
from keras_mt.layers.types import Shape, Tensor

_MOST_DOUBLINGS = 24  # Of positions: XLA asks for a bound.


@keras.saving.register_keras_serializable(package="keras_mt")
class SSRU(SequenceLayer):
    """Simpler simple recurrent unit: a recurrence that stands in for causal self-attention.

    With the forget gate `f_t = sigmoid(x_t W_f + b_f)` the state is
    `c_t = f_t * c_{t-1} + (1 - f_t) * (x_t W)`, from `c_0 = 0`, and the output `relu(c_t)`. The
    gates do not depend on the states: all positions are computed in a number of steps that grows
    with the logarithm of the length. A decoder keeps one state, whatever the length.

    Args:
        dropout: Rate of dropout on the output, at least 0 and below 1.
        use_bias: Whether the forget gate has a bias.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Float tensor `[batch, length, width]`.
        mask: Boolean `[batch, length]`, true at real tokens; the others leave the state as it is.
            When None, the mask that the inputs carry.
        training: Whether dropout is on.

    Returns:
        Float tensor `[batch, length, width]`, which carries the mask.

    Raises:
        ValueError: If `dropout` is out of range, or the input is not float
            `[batch, length, width]`.

    Reference:
        Kim et al. 2019, From Research to Production and Back: Ludicrously Fast Neural Machine
        Translation, section 3.2 (https://aclanthology.org/D19-5632).

    Example:

    >>> tuple(SSRU()(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def __init__(self, dropout: float = 0.0, *, use_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape: Shape) -> None:
        self._check_inputs(input_shape)
        width = input_shape[-1]
        self.input_dense = self._dense("input", width, input_shape, use_bias=False)
        self.forget_dense = self._dense("forget", width, input_shape, activation="sigmoid")

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        self._check_inputs(inputs)
        forget, added = self._gate(inputs)
        if mask is not None:
            mask = ops.expand_dims(mask, -1)
            forget, added = ops.where(mask, forget, 1), ops.where(mask, added, 0)
        return self.dropout_layer(ops.relu(_recurrence(forget, added)), training=training)

    def _gate(self, inputs):
        """The share of the state before that stays, and what is added to it."""
        forget = self.forget_dense(inputs)
        return forget, (1 - forget) * self.input_dense(inputs)

    def initial_state(self, batch_size: int | Tensor, beams: int | Tensor = 1) -> Tensor:
        """The state for the first `step`, zeros `[batch, beams, width]`."""
        return ops.zeros((batch_size, beams, self.input_dense.units), self.compute_dtype)

    def step(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs at a new position of each hypothesis, and the next state.

        Inputs and outputs are `[batch * beams, width]`.
        """
        forget, added = (ops.reshape(x, ops.shape(state)) for x in self._gate(inputs))
        state = forget * state + added
        return ops.reshape(ops.relu(state), ops.shape(inputs)), state


def _recurrence(forget, added):
    """`c_t = forget_t * c_{t-1} + added_t` at all positions of axis 1, in a logarithm of rounds."""
    length = ops.shape(added)[1]

    def double(shift, forget, added):
        inside = ops.expand_dims(ops.arange(length) >= shift, -1)
        before = ops.where(inside, ops.roll(added, shift, axis=1), 0)
        factor = ops.where(inside, ops.roll(forget, shift, axis=1), 1)
        return shift * 2, forget * factor, forget * before + added

    state = 1, forget, added
    if isinstance(length, int):
        while state[0] < length:
            state = double(*state)
    else:
        state = ops.while_loop(
            lambda shift, *_: shift < length, double, state, maximum_iterations=_MOST_DOUBLINGS
        )
    return state[2]
