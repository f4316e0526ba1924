"""The former name of a `Transformer` with the options of MarianMT, M2M-100 and NLLB."""

from typing import Any, ClassVar

import keras

from keras_mt.layers import PositionalEmbedding
from keras_mt.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="keras_mt")
class _Embedding(PositionalEmbedding):
    """A file of weights names them by the classes of the layers: this is the one of its files."""


@keras.saving.register_keras_serializable(package="keras_mt")
class PretrainedTransformer(Transformer):
    """Deprecated: `Transformer(positions="marian", logits_bias=True)`, for models saved as this."""

    _embedding_class: ClassVar[type] = _Embedding

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 6,
        d_model: int = 512,
        num_heads: int = 8,
        d_ff: int = 2048,
        dropout: float = 0.1,
        *,
        positions: str = "marian",
        logits_bias: bool = True,
        **kwargs: Any,
    ):
        sizes = num_layers, d_model, num_heads, d_ff, dropout
        super().__init__(vocab_size, *sizes, positions=positions, logits_bias=logits_bias, **kwargs)
