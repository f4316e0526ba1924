"""A decoder-only Transformer: a language model, and a translator with the same interface."""

from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from keras_mt.layers import DecoderBlock, PositionalEmbedding, target_mask
from keras_mt.layers.dot_product import causal_mask
from keras_mt.layers.layer import arguments_of
from keras_mt.layers.normalization import norm_layer
from keras_mt.layers.positional_embedding import ENCODINGS, SINUSOIDS
from keras_mt.layers.types import Activation, DType, Shape, Tensor
from keras_mt.layers.validation import check_one_of
from keras_mt.models.mixins import RecordedModel, block_options, embedding_options, preset
from keras_mt.models.seq2seq import Cache, Seq2Seq
from keras_mt.models.stack import Stack

_SWIGLU = {"activation": "silu", "gated": True}
_LLAMA = {**_SWIGLU, "norm": "rms", "positions": "rotary", "use_bias": False}
_LLAMA3 = {**_LLAMA, "rotary_base": 500000.0, "tie_output": False, "max_length": 8192}


@keras.saving.register_keras_serializable(package="keras_mt")
class DecoderOnly(RecordedModel, Seq2Seq, keras.Model):
    """A stack of causal blocks over source and target in one sequence.

    As a translator, called on `{"source": int32 [batch, source_length], "target": int32 [batch,
    target_length]}`, it reads the source, the start token as the separator, and the target, each
    position seeing all before it. Called on the target alone, `{"target": int32 [batch, length]}`,
    it is a language model. The output is float32 logits `[batch, target_length, vocab_size]`, at
    each position for the token that comes next.

    By default the blocks are GPT-2's; the presets `"tiny"` and `"llama3"` have Llama's.

    Args:
        vocab_size: Number of tokens of the joint vocabulary.
        num_layers: Number of blocks.
        d_model, num_heads, d_ff, dropout, activation: As in `Transformer`.
        norm: `"layer"` or `"rms"`, before each sublayer and at the end.
        positions: `"learned"`, `"sinusoidal"`, `"rotary"`, or None for none. The target's follow
            the source's; of the first two there are `2 * max_length`.
            With sinusoids, embeddings are multiplied by `sqrt(d_model)`.
        use_bias: Whether attention and feed-forward networks add biases.
        rotary_base: Base of the rotary positions, where there are such.
        gated, num_key_value_heads, tie_output, max_length, padding_id: As in `Transformer`.
        **kwargs: As in `Transformer`.

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Radford et al. 2019, Language Models are Unsupervised Multitask Learners; Llama Team 2024,
        The Llama 3 Herd of Models (https://arxiv.org/abs/2407.21783).

    Example:

    >>> model = DecoderOnly(100, num_layers=2, d_model=32, num_heads=4, d_ff=64)
    >>> source, target = np.array([[7, 9, 3]]), np.array([[2, 5]])
    >>> tuple(model({"source": source, "target": target}).shape)
    (1, 2, 100)
    """

    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "tiny": preset(6, 128, 4, 256, dropout=0.2, num_key_value_heads=2, **_LLAMA),
        "gpt2": preset(12, 768, 12, 3072, dropout=0.1),
        "llama3": preset(32, 4096, 32, 14336, dropout=0.0, num_key_value_heads=8, **_LLAMA3),
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
        norm: str = "layer",
        positions: str | None = "learned",
        gated: bool = False,
        use_bias: bool = True,
        num_key_value_heads: int | None = None,
        rotary_base: float = 10000.0,
        tie_output: bool = True,
        max_length: int = 1024,
        padding_id: int = 0,
        dtype: DType = None,
        **kwargs: Any,
    ):
        arguments = arguments_of(locals())
        check_one_of(("rotary", *ENCODINGS), positions=positions)
        super().__init__(dtype=dtype, **kwargs)
        self._record(arguments)
        rotary, policy = positions == "rotary", self.dtype_policy
        options = embedding_options(arguments, policy)
        self.embedding = PositionalEmbedding(
            **options | {"max_length": 2 * max_length},  # Source and target.
            dropout=dropout,
            tie_weights=tie_output,
            encoding=None if rotary else positions,
            scale=positions in SINUSOIDS,  # They do not shrink with the width.
            name="embedding",
        )
        options = {"pre_norm": True, "rotary_base": rotary_base if rotary else None}
        options |= block_options(arguments, policy)
        self.blocks = [
            DecoderBlock(num_heads, d_ff, name=f"block_{i}", **options) for i in range(num_layers)
        ]
        self.final_norm = norm_layer(norm, policy, "final_norm")
        self.stack = Stack(self.blocks, self.final_norm)

    def build(self, input_shape: Shape | dict[str, Shape] | None = None) -> None:
        self.embedding.build((None, None))
        for layer in (*self.blocks, self.final_norm):
            layer.build((None, None, self.d_model))
        self.built = True

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        target = inputs["target"]
        source = inputs.get("source", target[:, :0])
        tokens, mask, positions = self._left_pad(source)
        after = ops.arange(ops.shape(target)[1], dtype="int32")
        lengths = _lengths(mask)
        positions = ops.concatenate([positions, lengths + after], axis=1)
        mask = ops.concatenate([mask, target_mask(target, self.padding_id)], axis=1)
        tokens = ops.concatenate([tokens, ops.cast(target, tokens.dtype)], axis=1)
        length, limit = tokens.shape[1], 2 * self.max_length
        if isinstance(length, int) and length > limit:
            raise ValueError(f"Source and target may have {limit} tokens together, not {length}.")
        hidden = self.embedding(tokens, positions=positions, mask=mask)
        hidden = self.stack(hidden)[:, ops.shape(source)[1] :]
        return self.embedding(hidden, reverse=True)

    def _left_pad(self, source):
        """The source with its padding on the left, its mask, and the positions of its tokens."""
        real = ops.cast(ops.not_equal(source, self.padding_id), "int32")
        length = ops.shape(source)[1]
        # Unlike keys: padding first, and otherwise in the order that there was.
        order = ops.argsort(real * length + ops.arange(length, dtype="int32"), axis=1)
        tokens = ops.take_along_axis(source, order, axis=1)
        mask = ops.not_equal(tokens, self.padding_id)
        return tokens, mask, ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)

    def start_decoding(self, source: Tensor, beams: int | Tensor = 1) -> Cache:
        """See `Seq2Seq.start_decoding`: the source is a prefix that the hypotheses share."""
        tokens, mask, positions = self._left_pad(source)
        rows, length = ops.shape(tokens)
        hidden = self.embedding(tokens, positions=positions, mask=mask)
        seen = ops.logical_and(ops.expand_dims(mask, 1), causal_mask(length, length))
        _, prefixes = self.stack.step(hidden, self.stack.start(rows), ops.arange(length), seen)
        blocks = [
            {**empty, "prefix": prefix["self_attention"]}
            for empty, prefix in zip(self.stack.start(rows), prefixes, strict=True)
        ]
        return {"blocks": blocks, "mask": mask, "lengths": _lengths(mask)}

    def decode_states(
        self, tokens: Tensor, position: int | Tensor, cache: Cache, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """See `Seq2Seq.decode_states`."""
        seen = ops.expand_dims(cache["mask"], 1)
        if mask is None:  # A single hypothesis.
            mask = ops.ones((*ops.shape(tokens), position + 1), "bool")
        else:
            seen = ops.logical_or(seen, ops.expand_dims(ops.zeros_like(tokens, "bool"), -1))
        mask = ops.concatenate([seen, mask], axis=-1)
        hidden = self.embedding(tokens, positions=cache["lengths"] + position)
        # Rotary positions count the padding before the source: only distances matter to them.
        place = ops.shape(cache["mask"])[1] + position
        hidden, blocks = self.stack.step(hidden, cache["blocks"], place, mask)
        return ops.reshape(hidden, (-1, self.d_model)), {**cache, "blocks": blocks}

    def output_projection(self, token_ids: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """See `Seq2Seq.output_projection`."""
        return self.embedding.projection(token_ids)

    def _output_embedding(self):
        return self.embedding.embedding


def _lengths(mask):
    """The number of real tokens of each row, `[batch, 1]`."""
    return ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
