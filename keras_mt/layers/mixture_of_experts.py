"""A mixture of experts in place of the feed-forward network."""

import math
from fractions import Fraction
from typing import Any

import keras
from keras import ops

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import BaseLayer
from keras_mt.layers.types import Activation, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class MixtureOfExperts(BaseLayer):
    """A mixture of feed-forward networks, of which each token goes through `top_k`.

    With the router's probabilities `p = softmax(x W_r)` over the experts, the output of a token is
    `sum_e w_e FeedForward_e(x)` over the `top_k` experts with the highest `p_e`, whose weights
    `w_e` are their `p_e` divided by the sum of those `p_e`. With `top_k=1` the weight is `p_e`
    itself, so that the router learns (Fedus et al.); a single expert has the weight 1 and is a
    `FeedForward`.

    In training an expert takes at most `ceil(capacity_factor * top_k * tokens / num_experts)`
    tokens: first choices before second ones, each in the order of the tokens. What does not fit is
    dropped: it adds nothing to the output, and only the residual around the layer passes. Outside
    training nothing is dropped, and a token's output does not depend on the rest of the batch;
    every expert then computes every token, which takes `num_experts / top_k` times what the chosen
    ones would.

    In training the layer adds the loss `balance_weight * num_experts * sum_e f_e P_e`, where `f_e`
    is the share of the tokens that have expert e among their choices, and `P_e` the mean of `p_e`
    over the tokens: the loss of Fedus et al., with all choices in `f_e`, as in Mixtral. When all
    experts are chosen equally often, it is `balance_weight * top_k`.

    Masked tokens go to no expert: they take no capacity, count nowhere, and their output is 0.

    Args:
        num_experts: Number of experts.
        d_ff: Width of the inner layer of each expert.
        top_k: Number of experts that each token goes through.
        capacity_factor: How many tokens an expert takes in training, as a multiple of what each
            would take if all were chosen equally often; at least 0.001.
        activation, dropout, gated: As in `FeedForward`, of each expert.
        use_bias: Whether the experts add biases. The router has none.
        balance_weight: Weight of the load-balancing loss; 0 for none.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`. The router
            computes in float32 whatever the dtype.

    Call arguments:
        inputs: Float tensor `[..., width]`.
        mask: Boolean `[...]`, true at real tokens. When None, the mask that the inputs carry.
        training: Whether capacity, dropout and the load-balancing loss are on.

    Returns:
        Float tensor of the shape of the inputs, which carries the mask.

    Raises:
        ValueError: If an argument is out of range, or `top_k` is above `num_experts`.

    Reference:
        Shazeer et al. 2017, Outrageously Large Neural Networks (https://arxiv.org/abs/1701.06538);
        Lepikhin et al. 2020, GShard (https://arxiv.org/abs/2006.16668); Fedus et al. 2021, Switch
        Transformers (https://arxiv.org/abs/2101.03961).

    Example:

    >>> experts = MixtureOfExperts(num_experts=4, d_ff=64)
    >>> tuple(experts(keras.random.normal((2, 5, 32))).shape)
    (2, 5, 32)
    """

    def __init__(
        self,
        num_experts: int,
        d_ff: int,
        top_k: int = 2,
        capacity_factor: float = 1.25,
        activation: Activation = "relu",
        dropout: float = 0.0,
        *,
        gated: bool = False,
        use_bias: bool = True,
        balance_weight: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._record(locals())
        if top_k > num_experts:
            raise ValueError(
                f"top_k must be at most num_experts. Received: {top_k=}, {num_experts=}"
            )
        if not (capacity_factor >= 0.001 and balance_weight >= 0):
            raise ValueError(
                "capacity_factor must be at least 0.001, and balance_weight at least 0. "
                f"Received: {capacity_factor=}, {balance_weight=}"
            )

    def build(self, input_shape: Shape) -> None:
        width = input_shape[-1]
        self.router_kernel = self.add_weight(
            (width, self.num_experts), name="router_kernel", dtype="float32", autocast=False
        )
        shapes = {"gate": (width, self.d_ff)} if self.gated else {}
        shapes |= {"inner": (width, self.d_ff), "output": (self.d_ff, width)}
        # Glorot's uniform initializer would take the experts for positions of a convolution.
        limit = math.sqrt(6 / (width + self.d_ff))
        for name, shape in shapes.items():
            glorot = keras.initializers.RandomUniform(-limit, limit)
            kernel = self.add_weight((self.num_experts, *shape), glorot, name=f"{name}_kernel")
            setattr(self, f"{name}_kernel", kernel)
        for name, (_, units) in shapes.items() if self.use_bias else ():
            bias = self.add_weight((self.num_experts, 1, units), "zeros", name=f"{name}_bias")
            setattr(self, f"{name}_bias", bias)
        self.dropout_layer = Dropout(self.dropout, dtype=self.dtype_policy)

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, training: bool | None = None
    ) -> Tensor:
        tokens = ops.reshape(inputs, (-1, inputs.shape[-1]))
        probabilities, weights, chosen = self._route(tokens, mask)
        if training:
            outputs = self._with_capacity(tokens, weights, chosen)
            if self.balance_weight and self.num_experts > 1:
                self.add_loss(self.balance_weight * _imbalance(probabilities, chosen, mask))
        else:
            shares = ops.sum(chosen * weights[..., None], axis=1)  # [tokens, num_experts]
            shares = ops.cast(ops.transpose(shares)[..., None], self.compute_dtype)
            outputs = ops.sum(shares * self._experts(tokens[None]), axis=0)
        return ops.reshape(outputs, ops.shape(inputs))

    def expert_load(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """The spread of the tokens over the experts, before any is dropped.

        Args:
            inputs: Float tensor `[..., width]`.
            mask: Boolean `[...]`, true at real tokens; None for all.

        Returns:
            Float32 `[num_experts]`, the share of the tokens that go through each expert. They sum
            to `top_k`.
        """
        _, _, chosen = self._route(ops.reshape(inputs, (-1, inputs.shape[-1])), mask)
        return ops.sum(chosen, axis=(0, 1)) / _count(chosen, mask)

    def _route(self, tokens, mask):
        """The router's probabilities, the weights of the choices, and the choices, ones and zeros.

        They are [tokens, num_experts], [tokens, top_k] and [tokens, top_k, num_experts].
        """
        logits = ops.matmul(ops.cast(tokens, "float32"), self.router_kernel)
        probabilities = ops.exp(ops.log_softmax(logits))  # Keras warns about a softmax over one.
        weights, choices = ops.top_k(probabilities, self.top_k)
        if self.top_k > 1 or self.num_experts == 1:
            weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        chosen = ops.one_hot(choices, self.num_experts, dtype="float32")
        if mask is not None:
            chosen = chosen * ops.reshape(ops.cast(mask, "float32"), (-1, 1, 1))
        return probabilities, weights, chosen

    def _experts(self, inputs, training=None):
        """Each expert on its own inputs [num_experts, rows, width], or all on the same [1, ...]."""

        def dense(x, name):
            x = ops.matmul(x, getattr(self, f"{name}_kernel"))
            return x + getattr(self, f"{name}_bias") if self.use_bias else x

        hidden = dense(inputs, "inner")
        if self.gated:
            hidden = self.activation(dense(inputs, "gate")) * hidden
        else:
            hidden = self.activation(hidden)
        return dense(self.dropout_layer(hidden, training=training), "output")

    def _with_capacity(self, tokens, weights, chosen):
        """The tokens through the experts that they chose, as far as these have room."""
        count, width = ops.shape(tokens)[0], tokens.shape[-1]
        # One row for each choice, all first choices before all second ones.
        chosen = ops.reshape(ops.swapaxes(chosen, 0, 1), (-1, self.num_experts))
        weights = ops.reshape(ops.transpose(weights), (-1, 1))
        token = ops.tile(ops.arange(count, dtype="int32"), (self.top_k,))

        # Shapes may not depend on the mask, but what an expert takes does. All numbers are whole,
        # and exact in float32 to 2**24.
        capacity = self._capacity(ops.cast(ops.sum(chosen) / self.top_k, "int32"))
        rank = ops.cumsum(chosen, axis=0)  # Of a choice among those of its expert, from 1 on.
        fitting = chosen * ops.cast(rank <= ops.cast(capacity, "float32"), "float32")
        fits = ops.sum(fitting, axis=-1)

        # Each expert has `size` slots; one more slot takes all that does not fit.
        size = self._capacity(count)
        slots = self.num_experts * size
        first = ops.cast(ops.arange(self.num_experts) * size, "float32")
        slot = ops.cast(ops.sum(fitting * (first + rank - 1), axis=-1), "int32")
        slot = ops.where(fits > 0, slot, slots)
        token_of_slot = ops.scatter_update(ops.zeros((slots + 1,), "int32"), slot[:, None], token)
        # An empty slot holds the first token, of which nothing is read.
        outputs = ops.take(tokens, token_of_slot[:-1], axis=0)
        outputs = ops.reshape(outputs, (self.num_experts, size, width))
        outputs = ops.reshape(self._experts(outputs, training=True), (slots, width))
        outputs = ops.take(outputs, ops.minimum(slot, slots - 1), axis=0)
        outputs = outputs * ops.cast(weights * fits[:, None], self.compute_dtype)
        return ops.sum(ops.reshape(outputs, (self.top_k, count, width)), axis=0)

    def _capacity(self, tokens):
        # In whole numbers, of a Python int or of a tensor; at most all tokens.
        factor = Fraction(self.capacity_factor).limit_denominator(1000)
        share = min(factor * self.top_k / self.num_experts, Fraction(1))
        return -(-share.numerator * tokens // share.denominator)


def _count(chosen, mask):
    """The number of real tokens, at least 1."""
    if mask is None:
        return ops.cast(ops.shape(chosen)[0], "float32")
    return ops.maximum(ops.sum(ops.cast(mask, "float32")), 1)


def _imbalance(probabilities, chosen, mask):
    """`num_experts * sum_e f_e P_e` of the real tokens."""
    count = _count(chosen, mask)
    if mask is not None:
        probabilities = probabilities * ops.reshape(ops.cast(mask, "float32"), (-1, 1))
    share, mean = ops.sum(chosen, axis=(0, 1)) / count, ops.sum(probabilities, axis=0) / count
    return probabilities.shape[-1] * ops.sum(share * mean)
