"""The Transformer whose feed-forward networks are mixtures of experts."""

from typing import Any, ClassVar

import keras

from keras_mt.layers import MixtureOfExperts
from keras_mt.layers.layer import arguments_of, config_of
from keras_mt.models.transformer import PRESETS, Transformer


@keras.saving.register_keras_serializable(package="keras_mt")
class MixtureOfExpertsTransformer(Transformer):
    """The `Transformer` with a `MixtureOfExperts` in place of every second feed-forward network.

    The number of parameters grows with `num_experts`, the cost of a token in training with
    `experts_per_token`. Capacity and the load-balancing loss apply in training only.

    Args:
        vocab_size: As in `Transformer`.
        num_experts: Number of experts in each mixture.
        experts_per_token: Number of experts that a token goes through.
        sparse_step: Which blocks of the encoder and of the decoder have experts: every
            `sparse_step`-th, so with 2 the second, the fourth and so on.
        capacity_factor, balance_weight: As in `MixtureOfExperts`.
        **kwargs: The other arguments of `Transformer`. Each expert has the inner width `d_ff`.

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Lepikhin et al. 2020, GShard (https://arxiv.org/abs/2006.16668), which has experts in every
        second block; NLLB Team 2022, No Language Left Behind, section 6.2
        (https://arxiv.org/abs/2207.04672).

    Example:

    >>> model = MixtureOfExpertsTransformer(
    ...     vocab_size=100, num_layers=2, d_model=32, num_heads=4, d_ff=64
    ... )
    >>> tokens = np.array([[2, 7, 9, 0]])
    >>> tuple(model({"source": tokens, "target": tokens}).shape)
    (1, 4, 100)
    """

    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        name: {**PRESETS[name], "model": {**PRESETS[name]["model"], "num_experts": experts}}
        for name, experts in (("tiny", 4), ("base", 8))
    }

    def __init__(
        self,
        vocab_size: int,
        *,
        num_experts: int = 4,
        experts_per_token: int = 2,
        sparse_step: int = 2,
        capacity_factor: float = 1.25,
        balance_weight: float = 0.01,
        **kwargs: Any,
    ):
        arguments = arguments_of(locals())
        if experts_per_token > num_experts:
            raise ValueError(
                "experts_per_token must be at most num_experts. "
                f"Received: {experts_per_token=}, {num_experts=}"
            )

        def feed_forward(side, i, **options):
            if (i + 1) % sparse_step:
                return None
            return MixtureOfExperts(
                num_experts,
                top_k=experts_per_token,
                capacity_factor=capacity_factor,
                balance_weight=balance_weight,
                name=f"{side}_{i}_experts",
                **options,
            )

        super().__init__(vocab_size, _feed_forward=feed_forward, **kwargs)
        if not self.mixtures:
            raise ValueError(
                "sparse_step must be at most the number of blocks of the encoder or the decoder. "
                f"Received: sparse_step={sparse_step}"
            )
        self._config |= config_of(arguments)

    @property
    def mixtures(self) -> list[MixtureOfExperts]:
        """The mixtures of experts of the encoder's blocks, then of the decoder's."""
        layers = [getattr(block, "feed_forward", None) for block in self.layers]
        return [layer for layer in layers if isinstance(layer, MixtureOfExperts)]
