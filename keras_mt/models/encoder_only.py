"""The encoder alone, a masked language model: BERT."""

import functools
from typing import Any, ClassVar

import keras

from keras_mt.layers import EncoderBlock, PositionalEmbedding
from keras_mt.layers.dropout import Dropout
from keras_mt.layers.normalization import LayerNormalization
from keras_mt.layers.types import Activation, DType
from keras_mt.models.mixins import RecordedModel, block_options, embedding_options, preset


@keras.saving.register_keras_serializable(package="keras_mt")
class EncoderOnly(RecordedModel, keras.Model):
    """A Transformer encoder that predicts masked tokens (BERT), a functional `keras.Model`.

    The input is int32 tokens `[batch, length]`, the output float32 logits
    `[batch, length, vocab_size]`, at each position for the token there, as it was before masking.
    `keras_mt.layers.TokenMasking` masks the tokens in training.

    `encoder` is the model without its head, with the same weights: what a classifier builds on.
    Unlike BERT it has no segment embeddings, no next sentence prediction, no bias of the logits,
    and no dropout on the attention weights.

    Args:
        vocab_size: Number of tokens, including the mask token.
        num_layers: Number of encoder blocks.
        activation: Activation of the feed-forward networks and of the head.
        max_length: The longest sequence, in tokens.
        d_model, num_heads, d_ff, dropout, padding_id: As in `Transformer`.
        **kwargs: As in `Transformer`.

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Devlin et al. 2019, BERT: Pre-training of Deep Bidirectional Transformers for Language
        Understanding (https://arxiv.org/abs/1810.04805).

    Example:

    >>> model = EncoderOnly(vocab_size=100, num_layers=2, d_model=32, num_heads=4, d_ff=64)
    >>> tokens = np.array([[2, 7, 99, 3, 0]])
    >>> tuple(model(tokens).shape), tuple(model.encoder(tokens).shape)
    ((1, 5, 100), (1, 5, 32))
    """

    # base is BERT base of Devlin et al. 2019; tiny is for tens of thousands of lines.
    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "tiny": preset(4, 128, 4, 512, dropout=0.1),
        "base": preset(12, 768, 12, 3072, dropout=0.1),
    }

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 12,
        d_model: int = 768,
        num_heads: int = 12,
        d_ff: int = 3072,
        dropout: float = 0.1,
        activation: Activation = "gelu",
        max_length: int = 512,
        padding_id: int = 0,
        dtype: DType = None,
        **kwargs: Any,
    ):
        arguments, policy = self._functional_arguments(locals())
        options = embedding_options(arguments, policy)
        embedding = PositionalEmbedding(
            **options, encoding="learned", scale=False, name="embedding"
        )
        tokens = keras.Input((None,), dtype="int32", name="tokens")
        norm = functools.partial(LayerNormalization, epsilon=1e-5, dtype=policy)
        hidden = norm(name="embedding_norm")(embedding(tokens))
        hidden = Dropout(dropout, dtype=policy, name="dropout")(hidden)
        options = block_options(arguments, policy)
        for i in range(num_layers):
            hidden = EncoderBlock(num_heads, d_ff, name=f"encoder_{i}", **options)(hidden)
        head = keras.layers.Dense(d_model, activation, dtype=policy, name="head")(hidden)
        logits = embedding(norm(name="head_norm")(head), reverse=True)
        super().__init__(inputs=tokens, outputs=logits, **kwargs)
        # Only now: torch requires its own constructor to run first.
        self._hidden = hidden
        self._record(arguments, policy)

    @functools.cached_property
    def encoder(self) -> keras.Model:
        """The encoder, a functional model: tokens to `[batch, length, d_model]`.

        Its output carries the mask of the tokens.
        """
        return keras.Model(self.input, self._hidden, name="encoder")
