"""The encoder-decoder Transformer as a functional Keras model."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_mt import layers
from keras_mt.layers.normalization import norm_layer
from keras_mt.layers.positional_embedding import ENCODINGS
from keras_mt.layers.types import Activation, DType, Tensor
from keras_mt.layers.validation import check_one_of
from keras_mt.losses import alignment_loss
from keras_mt.models.mixins import RecordedModel, block_options, embedding_options, preset
from keras_mt.models.seq2seq import Cache, Seq2Seq
from keras_mt.models.stack import Stack

# `model`: arguments of Transformer. `training`: the options of training of the same source, the
# defaults of `keras-mt train`. base and big are Vaswani et al. 2017, table 3; tiny and small are
# for corpora of tens and of hundreds of thousands of pairs.
PRESETS = {
    "tiny": preset(4, 128, 4, 256, dropout=0.3),
    "small": preset(4, 256, 4, 1024, dropout=0.3),
    "base": preset(6, 512, 8, 2048, dropout=0.1, batch_tokens=25000),
    "big": preset(6, 1024, 16, 4096, dropout=0.3, batch_tokens=25000),
}
_GUIDANCE = 0.05  # The weight of the loss of guided alignment, as of Garg et al. 2019.
_SIDES = {"encoder": (layers.EncoderBlock, "sf", ""), "decoder": (layers.DecoderBlock, "scf", "r")}


@keras.saving.register_keras_serializable(package="keras_mt")
class Transformer(RecordedModel, Seq2Seq, keras.Model):
    """The encoder-decoder Transformer for translation, a functional `keras.Model`.

    The inputs are `{"source": int32 [batch, source_length], "target": int32 [batch,
    target_length]}`, the target beginning with the start token; the output is float32 logits
    `[batch, target_length, vocab_size]`, at each position for the token that comes next.

    Args:
        vocab_size: Number of tokens of the source, and of the target unless `target_vocab_size`
            says otherwise.
        num_layers: Number of encoder blocks, and of decoder blocks.
        d_model: Width of the model; must be even for sinusoidal positions.
        num_heads: Number of attention heads; must divide `d_model` unless `key_dim` is given.
        d_ff: Inner width of the feed-forward networks.
        dropout: Rate of dropout on the embeddings and on the output of each sublayer.
        activation: Activation of the feed-forward networks.
        pre_norm: Whether to normalize before each sublayer rather than after.
        share_embeddings: Whether source and target embed with the same weights.
        tie_output: Whether the output projection shares the target's embedding weights.
        max_length: The longest source or target, in tokens.
        padding_id: The padding token of source and target.
        num_encoder_layers: Number of encoder blocks; None for `num_layers`.
        num_decoder_layers: Number of decoder blocks; None for `num_layers`.
        norm: `"layer"` or `"rms"`, as in `EncoderBlock`.
        positions: An `encoding` of `PositionalEmbedding`, or None for no positions; or `"rotary"`
            (in self-attention, with base 10000) or `"relative"` (biases of self-attention that the
            blocks of a side share, `keras_mt.layers.RelativePositions`).
        gated: Whether the feed-forward networks have gates: SwiGLU with the activation `"silu"`.
        num_key_value_heads: Number of key and value heads in self-attention, as in
            `MultiHeadAttention`.
        encoder_sublayers: Another order of the encoder's sublayers, in place of a number of
            layers: a string of `s` (self-attention) and `f` (feed-forward). The sandwich of Press
            et al. with 6 layers and a coefficient of 2 is `"ss" + "sf" * 4 + "ff"`. None for the
            usual order.
        decoder_sublayers: The same for the decoder, with `c` for cross-attention and `r` for a
            recurrence, `keras_mt.layers.SSRU`: `"rcf" * 2` is two layers of Marian's fast students.
        target_vocab_size: Number of tokens of the target; None for `vocab_size`.
        num_encoder_heads, num_decoder_heads: Numbers of heads; None for `num_heads`.
        encoder_d_ff, decoder_d_ff: Inner widths of the feed-forward networks; None for `d_ff`.
        scale_embeddings, normalize_embeddings, logits_bias, zero_id: `scale`, `normalize`,
            `use_bias` and `zero_id` of `PositionalEmbedding`.
        final_norm: Whether both stacks end with a normalization; None for `pre_norm`.
        alignment_head: The head that `attention` is that of: `(layer, head)`, both from 0, of the
            decoder's blocks with cross-attention. None for the mean of the last one's heads.
        reads_terms: Whether a glossary's terms are written into its sources, which it must have
            been trained on, as by `keras-mt train --terms`; also an attribute, which may be set.
        norm_epsilon, use_bias, key_dim, scale_attention: As in `EncoderBlock`.
        **kwargs: `name` and `dtype` (a dtype or a policy such as `"mixed_bfloat16"`).

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762); orders of sublayers: Press et al.
        2020 (https://arxiv.org/abs/1911.03864).

    Example:

    >>> model = Transformer(
    ...     vocab_size=100, num_layers=2, d_model=32, num_heads=4, d_ff=64
    ... )
    >>> tokens = np.array([[2, 7, 9, 0]])
    >>> tuple(model({"source": tokens, "target": tokens}).shape)
    (1, 4, 100)
    """

    presets = PRESETS

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 6,
        d_model: int = 512,
        num_heads: int = 8,
        d_ff: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        pre_norm: bool = False,
        share_embeddings: bool = True,
        tie_output: bool = True,
        max_length: int = 1024,
        padding_id: int = 0,
        num_encoder_layers: int | None = None,
        num_decoder_layers: int | None = None,
        dtype: DType = None,
        *,
        norm: str = "layer",
        positions: str | None = "sinusoidal",
        gated: bool = False,
        num_key_value_heads: int | None = None,
        encoder_sublayers: str | None = None,
        decoder_sublayers: str | None = None,
        target_vocab_size: int | None = None,
        num_encoder_heads: int | None = None,
        num_decoder_heads: int | None = None,
        encoder_d_ff: int | None = None,
        decoder_d_ff: int | None = None,
        scale_embeddings: bool = True,
        normalize_embeddings: bool = False,
        final_norm: bool | None = None,
        logits_bias: bool = False,
        alignment_head: Sequence[int] | None = None,
        reads_terms: bool = False,
        norm_epsilon: float = 1e-5,
        zero_id: int | None = None,
        use_bias: bool = True,
        key_dim: int | None = None,
        scale_attention: bool = True,
        _feed_forward: Callable[..., keras.layers.Layer | None] | None = None,
        **kwargs: Any,
    ):
        arguments, policy = self._functional_arguments(locals())
        embeddings = _embeddings(arguments, policy)
        stacks = [_stack(side, arguments, policy, _feed_forward) for side in _SIDES]
        alignment_head = _check_head(alignment_head, stacks[1].blocks)
        inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in ("source", "target")}
        super().__init__(inputs=inputs, outputs=_logits(inputs, *embeddings, *stacks), **kwargs)
        # Only now: torch requires its own constructor to run first.
        self.source_embedding, self.target_embedding = embeddings
        self.encoder_stack, self.decoder_stack = stacks
        self.alignment_head, self.reads_terms = alignment_head, reads_terms
        self._record(arguments, policy)

    def get_config(self) -> dict[str, Any]:
        head = self.alignment_head and list(self.alignment_head)  # As a file has it.
        others = {"alignment_head": head, "reads_terms": bool(self.reads_terms)}
        return {**super().get_config(), **others}

    @property
    def guided_head(self) -> tuple[int, int]:
        """The head that guided alignment teaches: the first of the penultimate cross-attention."""
        count = sum("c" in block.sublayers for block in self.decoder_stack.blocks)
        return max(count - 2, 0), 0

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None, mask: Any = None
    ) -> Tensor:
        """As a functional model; in training, `alignment` in the inputs guides `alignment_head`.

        `alignment` is boolean `[batch, target_length, source_length]`, as of
        `keras_mt.data.Batches`. Its loss, 0.05 times `keras_mt.losses.alignment_loss`, is added as
        those of layers are.
        """
        if not (isinstance(inputs, dict) and "alignment" in inputs):
            return super().call(inputs, training=training, mask=mask)
        source, target = inputs["source"], inputs["target"]
        if not training or self.alignment_head is None:
            return super().call({"source": source, "target": target}, training=training)
        hidden, scores = self._decode(target, self.encode(source), return_attention_scores=True)
        real = layers.target_mask(target, self.padding_id)
        loss = alignment_loss(inputs["alignment"], self._alignment(scores), real)
        keras.layers.Layer.add_loss(self, _GUIDANCE * loss)  # A functional model's own refuses.
        return self.target_embedding(hidden, reverse=True)

    def encode(self, source: Tensor) -> Tensor:
        """The encoder's output `[batch, source_length, d_model]`, which the decoder attends to.

        It carries the mask of the source's tokens.
        """
        return self.encoder_stack(self.source_embedding(source))

    def _decode(self, target, memory, **options):
        mask = layers.target_mask(target, self.padding_id)
        return self.decoder_stack(self.target_embedding(target, mask=mask), memory, **options)

    def start_decoding(self, source: Tensor, beams: int | Tensor = 1) -> Cache:
        """See `Seq2Seq.start_decoding`.

        The hypotheses of a source share its keys and values; in the axes that grow they are side by
        side. Each has the state of a recurrence to itself.
        """
        return {
            "blocks": self.decoder_stack.start(ops.shape(source)[0], self.encode(source), beams),
            "memory_mask": ops.not_equal(source, self.padding_id),
        }

    def decode_states(
        self, tokens: Tensor, position: int | Tensor, cache: Cache, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """See `Seq2Seq.decode_states`."""
        hidden = self.target_embedding(tokens, positions=position)
        hidden, blocks = self.decoder_stack.step(
            hidden, cache["blocks"], position, mask, cache["memory_mask"]
        )
        return ops.reshape(hidden, (-1, self.d_model)), {**cache, "blocks": blocks}

    def reorder_cache(self, cache: Cache, parents: Tensor) -> Cache:
        """See `Seq2Seq.reorder_cache`: only a recurrence has what is reordered."""
        return {**cache, "blocks": self.decoder_stack.reorder(cache["blocks"], parents)}

    def output_projection(self, token_ids: Tensor | None = None) -> Callable[[Tensor], Tensor]:
        """See `Seq2Seq.output_projection`."""
        return self.target_embedding.projection(token_ids)

    def _output_embedding(self):
        return self.target_embedding.embedding

    def attention(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Seq2Seq.attention`: that of `alignment_head`."""
        _, scores = self._decode(target, self.encode(source), return_attention_scores=True)
        return self._alignment(scores)

    def _alignment(self, scores):
        """The attention `[batch, target, source]` in the weights of the decoder's blocks."""
        cross = [each["cross_attention"] for each in scores if "cross_attention" in each]
        if self.alignment_head is None:
            return ops.mean(ops.cast(cross[-1], "float32"), axis=1)
        layer, head = self.alignment_head
        return ops.cast(cross[layer][:, head], "float32")

    def attention_scores(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """The attention weights of every block and head.

        Args:
            source, target: As in `attention`.

        Returns:
            Three lists with a tensor for each block that has such a sublayer, from the first to
            the last, float32 `[batch, num_heads, query_length, key_length]`, whose rows sum to 1:
            `"encoder"`, of the source over itself; `"decoder"`, of the target over itself; and
            `"cross"`, of the target over the source.

        Example:

        >>> model = Transformer(vocab_size=100, num_layers=2, d_model=32, num_heads=4, d_ff=64)
        >>> scores = model.attention_scores(np.array([[7, 9, 3]]), np.array([[2, 5]]))
        >>> {name: (len(x), tuple(x[0].shape)) for name, x in scores.items()}
        {'encoder': (2, (1, 4, 3, 3)), 'decoder': (2, (1, 4, 2, 2)), 'cross': (2, (1, 4, 2, 3))}
        """
        hidden = self.source_embedding(source)
        memory, encoder = self.encoder_stack(hidden, return_attention_scores=True)
        _, decoder = self._decode(target, memory, return_attention_scores=True)

        def of(sublayer, scores):
            return [ops.cast(each[sublayer], "float32") for each in scores if sublayer in each]

        return {
            "encoder": of("self_attention", encoder),
            "decoder": of("self_attention", decoder),
            "cross": of("cross_attention", decoder),
        }


def _logits(inputs, source_embedding, target_embedding, encoder, decoder):
    memory = encoder(source_embedding(inputs["source"]))
    mask = layers.target_mask(inputs["target"], target_embedding.padding_id)
    hidden = decoder(target_embedding(inputs["target"], mask=mask), memory)
    return target_embedding(hidden, reverse=True)


def _embeddings(arguments, policy):
    """The embeddings of the source and of the target, which may be one, or share their weights."""
    share, normalize = arguments["share_embeddings"], arguments["normalize_embeddings"]
    positions = arguments["positions"]
    check_one_of(("rotary", "relative", *ENCODINGS), positions=positions)
    vocab_size, target_size = arguments["vocab_size"], arguments["target_vocab_size"]
    if share and target_size not in (None, vocab_size):
        raise ValueError(
            "share_embeddings needs one vocabulary. "
            f"Received: vocab_size={vocab_size}, target_vocab_size={target_size}"
        )
    options = {
        **embedding_options(arguments, policy),
        "dropout": arguments["dropout"],
        "encoding": positions if positions in ENCODINGS else None,
        "scale": arguments["scale_embeddings"],
        "normalize": normalize,
        "zero_id": arguments["zero_id"],
    }
    target = layers.PositionalEmbedding(
        **options | {"vocab_size": vocab_size if target_size is None else target_size},
        tie_weights=arguments["tie_output"],
        use_bias=arguments["logits_bias"],
        name="embedding" if share and not normalize else "target_embedding",
    )
    if share and not normalize:
        return target, target
    # Each side has its own normalization.
    weights = {"_embedding": target.embedding} if share else {}
    return layers.PositionalEmbedding(**options, **weights, name="source_embedding"), target


def _stack(side, arguments, policy, feed_forward):
    """The stack of one side, encoder or decoder."""

    def size(own, common):
        return arguments[common] if arguments[own] is None else arguments[own]

    heads, d_ff = size(f"num_{side}_heads", "num_heads"), size(f"{side}_d_ff", "d_ff")
    block_class, letters, others = _SIDES[side]
    orders = [letters] * size(f"num_{side}_layers", "num_layers")
    if arguments[f"{side}_sublayers"] is not None:
        orders = _orders(f"{side}_sublayers", arguments[f"{side}_sublayers"], letters, others)
    rotary = arguments["positions"] == "rotary"
    options = {**block_options(arguments, policy), "rotary_base": 10000.0 if rotary else None}
    given = {"dtype": policy, **{n: arguments[n] for n in ("d_ff", "activation", "gated")}}
    blocks, norm, relative = [], None, None
    for i, order in enumerate(orders):
        options["feed_forward"] = feed_forward and feed_forward(side, i, **given)
        blocks.append(block_class(heads, d_ff, sublayers=order, name=f"{side}_{i}", **options))
    if size("final_norm", "pre_norm"):
        norm = norm_layer(arguments["norm"], policy, f"{side}_norm", arguments["norm_epsilon"])
    if arguments["positions"] == "relative" and any("s" in order for order in orders):
        both = side == "encoder"
        relative = layers.RelativePositions(heads, both, dtype=policy, name=f"{side}_positions")
    return Stack(blocks, norm, relative)


def weights_per_token(
    vocab_size: int, num_layers: int, d_model: int, d_ff: int, **others: Any
) -> int:
    """The number of weights of a Transformer that a token of each side is multiplied with.

    >>> weights_per_token(vocab_size=10, num_layers=1, d_model=2, d_ff=3)
    92
    """
    # Encoder and decoder: three attentions of four matrices each, and two feed-forward networks.
    return num_layers * (12 * d_model**2 + 4 * d_model * d_ff) + d_model * vocab_size


def _check_head(head, blocks):
    """The layer and the head, or None; ValueError if there is no such head."""
    heads = [block.num_heads for block in blocks if "c" in block.sublayers]
    places = [(layer, i) for layer, number in enumerate(heads) for i in range(number)]
    if head is None:
        return None
    if not isinstance(head, Sequence) or tuple(head) not in places:
        raise ValueError(
            f"alignment_head must be a layer from 0 to {len(heads) - 1} and a head from 0 to "
            f"{heads[0] - 1}, of the decoder's cross-attention. Received: alignment_head={head!r}"
        )
    return places[places.index(tuple(head))]


def _orders(name, sublayers, block, others):
    """The sublayers of each block, such as `["s", "sf", "f"]` for `"ssff"`."""
    if not sublayers or set(sublayers) - {*block, *others} or (block[1:-1] not in sublayers):
        raise ValueError(
            f"{name} must be a string of the letters {', '.join(block + others)}"
            f"{', with a c' if 'c' in block else ''}. Received: {name}={sublayers!r}"
        )
    orders = [""]
    for letter in sublayers:
        if letter in orders[-1]:
            orders.append("")
        orders[-1] += letter
    return orders
