"""Masking of tokens for a masked language model."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_mt.layers.layer import BaseLayer
from keras_mt.layers.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class TokenMasking(BaseLayer):
    """Masks tokens for a masked language model to fill in: `tokens` to `(masked, labels)`.

    Each real token is selected with probability `selection_rate`. Of those selected, 80% become the
    mask token, whose id is `vocab_size`, 10% a random token, and the rest stays as it is. The
    labels are the tokens where they were selected and padding elsewhere, so that
    `keras_mt.losses.CrossEntropy` and the metrics count nothing else.

    The pairs are what `fit` takes. With Keras on TensorFlow, `dataset.map(TokenMasking(...))` masks
    anew in each epoch; on any backend the layer can be called on arrays, as in a generator.

    Args:
        vocab_size: Number of tokens of the tokenizer; the model has one more, the mask token.
        selection_rate: The share of the real tokens that is selected.
        special_ids: Tokens that are neither selected nor drawn.
        padding_id: The token that pads sequences, and the label that does not count; special too.
        seed: Seed of the draws.
        **kwargs: `name` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Integer tokens `[batch, length]`, or of another shape.

    Returns:
        Two int32 tensors of the shape of the inputs: the masked tokens and the labels.

    Raises:
        ValueError: If `vocab_size` is not a positive int, or the rate is not from 0 to 1.

    Reference:
        Devlin et al. 2019, BERT, section 3.1 (https://arxiv.org/abs/1810.04805). There a fixed
        number of each sequence's tokens is selected, once; drawing each by itself and anew is as
        in Liu et al. 2019, RoBERTa, section 4.1 (https://arxiv.org/abs/1907.11692).

    Example:

    >>> masked, labels = TokenMasking(vocab_size=100, selection_rate=1.0)(np.array([[2, 7, 9, 0]]))
    >>> np.array(labels).tolist()
    [[0, 7, 9, 0]]
    """

    def __init__(
        self,
        vocab_size: int,
        selection_rate: float = 0.15,
        special_ids: Sequence[int] = (0, 1, 2, 3),
        padding_id: int = 0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        special_ids = tuple(special_ids)
        self._record(locals())
        if not 0 <= selection_rate <= 1:
            raise ValueError(f"selection_rate must be from 0 to 1. Received: {selection_rate=}")
        self.autocast = False  # Half precision would round the tokens.
        self.seed_generator = keras.random.SeedGenerator(seed)
        self._special = {*special_ids, padding_id, vocab_size}
        self._ordinary = np.setdiff1d(np.arange(vocab_size), [*self._special]).astype("int32")
        if not len(self._ordinary):
            raise ValueError(f"All tokens are special. Received: {vocab_size=}, {special_ids=}")

    def call(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        tokens, rate, seed = ops.cast(inputs, "int32"), self.selection_rate, self.seed_generator
        shape = ops.shape(tokens)
        # One draw says whether a token is selected and what becomes of it.
        draw = keras.random.uniform(shape, dtype="float32", seed=seed)
        for token in self._special:
            draw = ops.where(tokens == token, 1.0, draw)
        index = keras.random.randint(shape, 0, len(self._ordinary), dtype="int32", seed=seed)
        random = ops.take(ops.convert_to_tensor(self._ordinary), index)
        masked = ops.where(draw < 0.9 * rate, random, tokens)
        masked = ops.where(draw < 0.8 * rate, self.vocab_size, masked)
        return masked, ops.where(draw < rate, tokens, self.padding_id)

    def compute_output_shape(self, input_shape: Shape) -> tuple[Shape, Shape]:
        return input_shape, input_shape

    def compute_output_spec(self, inputs: Tensor) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        return tuple(keras.KerasTensor(inputs.shape, dtype="int32") for _ in range(2))
