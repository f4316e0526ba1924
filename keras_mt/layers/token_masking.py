"""Masking of tokens for a masked language model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_mt.layers.layer import BaseLayer
from keras_mt.layers.types import Shape, Tensor
from keras_mt.layers.validation import check_positive


@keras.saving.register_keras_serializable(package="keras_mt")
class TokenMasking(BaseLayer):
    """Masks tokens for a masked language model to fill in: `tokens` to `(masked, labels)`.

    Each real token is selected with probability `selection_rate`. Of those selected, a share of
    `mask_rate` becomes the mask token, `random_rate` a random token, and the rest stays as it is.
    The labels are the tokens where they were selected and padding elsewhere, so that
    `keras_mt.losses.CrossEntropy` and the metrics count nothing else.

    The pairs are what `fit` takes. With Keras on TensorFlow, `dataset.map(TokenMasking(...))` masks
    anew in each epoch; on any backend the layer can be called on arrays, as in a generator.

    Args:
        vocab_size: Number of tokens of the tokenizer, from which random ones are drawn.
        mask_id: The mask token; None for `vocab_size`, the first id after the tokenizer's: the
            model's vocabulary is then larger by one.
        selection_rate: The share of the real tokens that is selected.
        mask_rate: The share of the selected tokens that the mask token replaces.
        random_rate: The share of the selected tokens that a random token replaces.
        special_ids: Tokens that are neither selected nor drawn.
        padding_id: The token that pads sequences, and the label that does not count; special too.
        seed: Seed of the draws.
        **kwargs: `name` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Integer tokens `[batch, length]`, or of another shape.

    Returns:
        Two int32 tensors of the shape of the inputs: the masked tokens and the labels.

    Raises:
        ValueError: If `vocab_size` is not a positive int, a rate is not from 0 to 1, `mask_rate`
            and `random_rate` add up to more than 1, or all tokens are special.

    Reference:
        Devlin et al. 2019, BERT, section 3.1 (https://arxiv.org/abs/1810.04805). There a fixed
        number of each sequence's tokens is selected, once; drawing each by itself and anew is as
        in Liu et al. 2019, RoBERTa, section 4.1 (https://arxiv.org/abs/1907.11692).

    Example:

    >>> masked, labels = TokenMasking(vocab_size=100, selection_rate=1.0, mask_rate=1.0,
    ...     random_rate=0.0)(np.array([[2, 7, 9, 3, 0]]))
    >>> np.array(masked).tolist(), np.array(labels).tolist()
    ([[2, 100, 100, 3, 0]], [[0, 7, 9, 0, 0]])
    """

    def __init__(
        self,
        vocab_size: int,
        mask_id: int | None = None,
        selection_rate: float = 0.15,
        mask_rate: float = 0.8,
        random_rate: float = 0.1,
        special_ids: Sequence[int] = (0, 1, 2, 3),
        padding_id: int = 0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        special_ids = tuple(special_ids)
        self._record(locals())
        check_positive(vocab_size=vocab_size)
        rates = {"selection_rate": selection_rate, "mask_rate": mask_rate}
        for name, rate in {**rates, "random_rate": random_rate}.items():
            if not 0 <= rate <= 1:
                raise ValueError(f"{name} must be from 0 to 1. Received: {name}={rate!r}")
        if mask_rate + random_rate > 1:
            raise ValueError(
                "mask_rate and random_rate must add up to at most 1. "
                f"Received: mask_rate={mask_rate!r}, random_rate={random_rate!r}"
            )
        self.mask_id = vocab_size if mask_id is None else mask_id
        self.autocast = False  # Half precision would round the tokens.
        self.seed_generator = keras.random.SeedGenerator(seed)
        self._special = sorted({*self.special_ids, padding_id, self.mask_id})
        self._ordinary = np.setdiff1d(np.arange(vocab_size), self._special).astype("int32")
        if not len(self._ordinary):
            raise ValueError(
                "special_ids must leave some of the tokens. "
                f"Received: special_ids={special_ids!r}, vocab_size={vocab_size}"
            )

    def call(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        tokens = ops.cast(inputs, "int32")
        shape = ops.shape(tokens)
        # One draw says whether a token is selected and what becomes of it.
        draw = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        for token in self._special:
            draw = ops.where(tokens == token, 1.0, draw)
        masks = draw < self.selection_rate * self.mask_rate
        changes = draw < self.selection_rate * (self.mask_rate + self.random_rate)
        index = keras.random.randint(
            shape, 0, len(self._ordinary), dtype="int32", seed=self.seed_generator
        )
        random = ops.take(ops.convert_to_tensor(self._ordinary), index)
        masked = ops.where(masks, self.mask_id, ops.where(changes, random, tokens))
        labels = ops.where(draw < self.selection_rate, tokens, self.padding_id)
        return masked, labels

    def compute_output_shape(self, input_shape: Shape) -> tuple[Shape, Shape]:
        return input_shape, input_shape

    def compute_output_spec(self, inputs: Tensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        return tuple(keras.KerasTensor(inputs.shape, dtype="int32") for _ in range(2))
