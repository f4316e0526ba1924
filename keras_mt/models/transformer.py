"""The encoder-decoder Transformer as a functional Keras model."""

import functools
from collections.abc import Callable
from typing import Any, Self

import keras
from keras import ops

from keras_mt.layers import DecoderBlock, EncoderBlock, PositionalEmbedding, target_mask
from keras_mt.layers.blocks import norm_layer
from keras_mt.layers.rotary import split_positions
from keras_mt.layers.types import Activation, DType, Tensor
from keras_mt.layers.validation import check_divisible, check_positive
from keras_mt.models.configured import layer_states
from keras_mt.models.seq2seq import Seq2Seq, copy_of, untied_copy_of

# `model`: arguments of Transformer. `training`: the options of training of the same source, the
# defaults of `keras-mt train`. base and big are Vaswani et al. 2017, table 3; tiny and small are
# for corpora of tens and of hundreds of thousands of pairs.
PRESETS = {
    "tiny": {
        "model": {"num_layers": 4, "d_model": 128, "num_heads": 4, "d_ff": 256, "dropout": 0.3},
        "training": {"label_smoothing": 0.1, "warmup_steps": 4000, "batch_tokens": 4096},
    },
    "small": {
        "model": {"num_layers": 4, "d_model": 256, "num_heads": 4, "d_ff": 1024, "dropout": 0.3},
        "training": {"label_smoothing": 0.1, "warmup_steps": 4000, "batch_tokens": 4096},
    },
    "base": {
        "model": {"num_layers": 6, "d_model": 512, "num_heads": 8, "d_ff": 2048, "dropout": 0.1},
        "training": {"label_smoothing": 0.1, "warmup_steps": 4000, "batch_tokens": 25000},
    },
    "big": {
        "model": {"num_layers": 6, "d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
        "training": {"label_smoothing": 0.1, "warmup_steps": 4000, "batch_tokens": 25000},
    },
}


@keras.saving.register_keras_serializable(package="keras_mt")
class Transformer(Seq2Seq, keras.Model):
    """The encoder-decoder Transformer for translation, a functional `keras.Model`.

    The inputs are `{"source": int32 [batch, source_length], "target": int32 [batch,
    target_length]}`, the target beginning with the start token; the output is float32 logits
    `[batch, target_length, vocab_size]`, at each position for the token that comes next.

    `encoder` and `decoder` are its halves, models of their own with the same weights.

    Args:
        vocab_size: Number of tokens of the joint vocabulary.
        num_layers: Number of encoder blocks, and of decoder blocks.
        d_model: Width of the model; must be even for sinusoidal positions.
        num_heads: Number of attention heads; must divide `d_model`.
        d_ff: Inner width of the feed-forward networks.
        dropout: Rate of dropout on the embeddings and on the output of each sublayer.
        activation: Activation of the feed-forward networks.
        pre_norm: Whether to normalise before each sublayer rather than after.
        share_embeddings: Whether source and target embed with the same weights.
        tie_output: Whether the output projection shares the target's embedding weights.
        max_length: The longest source or target, in tokens.
        padding_id: The padding token of source and target.
        num_encoder_layers: Number of encoder blocks; None for `num_layers`.
        num_decoder_layers: Number of decoder blocks; None for `num_layers`.
        norm: `"layer"` for layer normalisation, `"rms"` for RMS normalisation.
        positions: `"sinusoidal"`, `"learned"`, `"rotary"` (in self-attention, with base 10000), or
            None for no positions.
        gated: Whether the feed-forward networks have gates: SwiGLU with the activation `"silu"`.
        num_key_value_heads: Number of key and value heads in self-attention, each shared by the
            same number of query heads; None for `num_heads`.
        encoder_sublayers: Another order of the encoder's sublayers, in place of a number of
            layers: a string of `s` (self-attention) and `f` (feed-forward). The sandwich of Press
            et al. with 6 layers and a coefficient of 2 is `"ss" + "sf" * 4 + "ff"`. None for the
            usual order.
        decoder_sublayers: The same for the decoder, with `c` for cross-attention.
        **kwargs: `name` and `dtype` (a dtype or a policy such as `"mixed_bfloat16"`).

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need (https://arxiv.org/abs/1706.03762); orders of
        sublayers: Press et al. 2020, Improving Transformer Models by Reordering their Sublayers
        (https://arxiv.org/abs/1911.03864).

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
        _feed_forward: Callable[[str, int], keras.layers.Layer | None] | None = None,
        **kwargs: Any,
    ):
        encoder_layers = num_layers if num_encoder_layers is None else num_encoder_layers
        decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        check_positive(
            num_layers=num_layers,
            num_heads=num_heads,
            num_encoder_layers=encoder_layers,
            num_decoder_layers=decoder_layers,
        )
        encoding, rotary_base = split_positions(positions)
        check_divisible(d_model=d_model, num_heads=num_heads)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        def embedding(name, tie_weights=True):
            return PositionalEmbedding(
                vocab_size,
                d_model,
                dropout,
                max_length=max_length,
                padding_id=padding_id,
                tie_weights=tie_weights,
                encoding=encoding,
                dtype=policy,
                name=name,
            )

        def blocks(block_class, side, orders):
            return [
                block_class(
                    num_heads,
                    d_ff,
                    dropout,
                    activation,
                    pre_norm,
                    norm=norm,
                    sublayers=order,
                    gated=gated,
                    num_key_value_heads=num_key_value_heads,
                    rotary_base=rotary_base,
                    feed_forward=_feed_forward and _feed_forward(side, i),
                    dtype=policy,
                    name=f"{side}_{i}",
                )
                for i, order in enumerate(orders)
            ]

        target_embedding = embedding(
            "embedding" if share_embeddings else "target_embedding", tie_output
        )
        source_embedding = target_embedding if share_embeddings else embedding("source_embedding")
        encoder_orders = _orders("encoder_sublayers", encoder_sublayers, "sf", encoder_layers)
        decoder_orders = _orders("decoder_sublayers", decoder_sublayers, "scf", decoder_layers)
        encoder_blocks = blocks(EncoderBlock, "encoder", encoder_orders)
        decoder_blocks = blocks(DecoderBlock, "decoder", decoder_orders)
        encoder_norm = norm_layer(norm, policy, "encoder_norm") if pre_norm else None
        decoder_norm = norm_layer(norm, policy, "decoder_norm") if pre_norm else None
        config = {
            "vocab_size": vocab_size,
            "num_layers": num_layers,
            "d_model": d_model,
            "num_heads": num_heads,
            "d_ff": d_ff,
            "dropout": dropout,
            "activation": keras.activations.serialize(keras.activations.get(activation)),
            "pre_norm": pre_norm,
            "share_embeddings": share_embeddings,
            "tie_output": tie_output,
            "max_length": max_length,
            "padding_id": padding_id,
            "num_encoder_layers": num_encoder_layers,
            "num_decoder_layers": num_decoder_layers,
            "norm": norm,
            "positions": positions,
            "gated": gated,
            "num_key_value_heads": num_key_value_heads,
            "encoder_sublayers": encoder_sublayers,
            "decoder_sublayers": decoder_sublayers,
        }
        self._compose(
            config,
            (source_embedding, target_embedding),
            (encoder_blocks, decoder_blocks),
            (encoder_norm, decoder_norm),
            policy,
            **kwargs,
        )

    def _compose(self, config, embeddings, blocks, norms, policy, **kwargs):
        """Makes the model from its layers, pairs of the encoder's and the decoder's."""
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        memory = _in_turn(source, embeddings[0], *blocks[0], norms[0])
        hidden = embeddings[1](target, mask=target_mask(target, config["padding_id"]))
        for decoder_block in blocks[1]:
            hidden = decoder_block(hidden, memory)
        logits = embeddings[1](_in_turn(hidden, norms[1]), reverse=True)
        super().__init__(inputs={"source": source, "target": target}, outputs=logits, **kwargs)
        # Only now: torch requires its own constructor to run first.
        self.source_embedding, self.target_embedding = embeddings
        self.encoder_blocks, self.decoder_blocks = blocks
        self.encoder_norm, self.decoder_norm = norms
        self.dtype_policy = policy
        self._config = config
        for name in ("vocab_size", "d_model", "max_length", "padding_id"):
            setattr(self, name, config[name])
        self.source_vocab_size = embeddings[0].vocab_size
        self.target_vocab_size = embeddings[1].vocab_size

    @functools.cached_property
    def encoder(self) -> keras.Model:
        """The encoder, a functional model: source tokens to `[batch, source_length, d_model]`.

        Its output carries the mask of the tokens.
        """
        source = keras.Input((None,), dtype="int32", name="source")
        return keras.Model(source, self.encode(source), name="encoder")

    @functools.cached_property
    def decoder(self) -> keras.Model:
        """The decoder, a functional model from `target` and `memory` to logits.

        It uses the mask that the memory carries.
        """
        target = keras.Input((None,), dtype="int32", name="target")
        memory = keras.Input((None, self.d_model), dtype=self.compute_dtype, name="memory")
        inputs = {"target": target, "memory": memory}
        decoder = keras.Model(inputs, self._logits(target, memory), name="decoder")
        decoder.supports_masking = True  # Else Keras warns about the memory's mask.
        return decoder

    def encode(self, source: Tensor) -> Tensor:
        """The encoder's output, which the decoder attends to.

        Args:
            source: Integer tokens `[batch, source_length]`.

        Returns:
            Float tensor `[batch, source_length, d_model]`, which carries the mask of the tokens.
        """
        return _in_turn(source, self.source_embedding, *self.encoder_blocks, self.encoder_norm)

    def _embedded(self, target):
        return self.target_embedding(target, mask=target_mask(target, self.padding_id))

    def _logits(self, target, memory):
        hidden = self._embedded(target)
        for block in self.decoder_blocks:
            hidden = block(hidden, memory)
        return self._project(_in_turn(hidden, self.decoder_norm))

    def start_decoding(self, source: Tensor, beams: int | Tensor = 1) -> dict[str, Any]:
        """See `Seq2Seq.start_decoding`.

        The hypotheses of a source share its keys and values; in the axes that grow they are side by
        side.
        """
        memory, rows = self.encode(source), ops.shape(source)[0]
        own, projected = zip(*(b.start(rows, memory) for b in self.decoder_blocks), strict=True)
        return {
            "target": list(own),
            "memory": list(projected),
            "memory_mask": ops.not_equal(source, self.padding_id),
        }

    def decode_step(
        self,
        tokens: Tensor,
        position: int | Tensor,
        cache: dict[str, Any],
        mask: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """See `Seq2Seq.decode_step`; the logits are float32."""
        return self._step(tokens, position, cache, mask, project=self._project)

    def _step(self, tokens, position, cache, mask=None, *, project):
        hidden = self.target_embedding(tokens, positions=position)
        # [batch * beams, d_model]: matrix products are fused with their bias and ReLU.
        hidden = ops.reshape(hidden, (-1, self.d_model))
        grown = []
        for block, *caches in zip(
            self.decoder_blocks, cache["target"], cache["memory"], strict=True
        ):
            hidden, block_cache = block.step(
                hidden, caches[0], mask, caches[1], cache["memory_mask"], position
            )
            grown.append(block_cache)
        logits = project(_in_turn(hidden, self.decoder_norm))
        logits = ops.reshape(logits, (*ops.shape(tokens), logits.shape[-1] or -1))
        return logits, {**cache, "target": grown}

    def _project(self, states):
        return self.target_embedding(states, reverse=True)

    def shortlisted(self, tokens: Tensor) -> Callable[..., tuple[Tensor, dict[str, Any]]]:
        """See `Seq2Seq.shortlisted`; the weights of the tokens are selected once.

        Not so in a subclass with a `decode_step` of its own, which is selected from.
        """
        if type(self).decode_step is not Transformer.decode_step:
            return super().shortlisted(tokens)
        return functools.partial(self._step, project=self.target_embedding.projection(tokens))

    def attention(self, source: Tensor, target: Tensor) -> Tensor:
        """The cross-attention of the last decoder block that has one, averaged over its heads.

        Args:
            source: Integer tokens `[batch, source_length]`.
            target: Integer tokens `[batch, target_length]`, from the start token on.

        Returns:
            Float32 `[batch, target_length, source_length]`, whose rows sum to 1.
        """
        return ops.mean(self.attention_scores(source, target)["cross"][-1], axis=1)

    def attention_scores(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """The attention weights of every block and head.

        Args:
            source: Integer tokens `[batch, source_length]`.
            target: Integer tokens `[batch, target_length]`, from the start token on.

        Returns:
            Three lists with a tensor for each block that has such a sublayer, from the first to
            the last, float32 `[batch, num_heads, query_length, key_length]`, whose rows sum to 1:
            `"encoder"`, of the source over itself; `"decoder"`, of the target over itself; and
            `"cross"`, of the target over the source.

        Example:

        >>> model = Transformer(vocab_size=100, num_layers=2, d_model=32, num_heads=4, d_ff=64)
        >>> scores = model.attention_scores(np.array([[7, 9, 3]]), np.array([[2, 5]]))
        >>> {name: (len(each), tuple(each[0].shape)) for name, each in scores.items()}
        {'encoder': (2, (1, 4, 3, 3)), 'decoder': (2, (1, 4, 2, 2)), 'cross': (2, (1, 4, 2, 3))}
        """
        source_mask = ops.not_equal(source, self.padding_id)
        own_mask = target_mask(target, self.padding_id)
        hidden, encoder = self.source_embedding(source), []
        for block in self.encoder_blocks:
            hidden, scores = block.with_scores(hidden, source_mask)
            encoder.append(scores)
        memory = _in_turn(hidden, self.encoder_norm)
        hidden, decoder = self._embedded(target), []
        for block in self.decoder_blocks:
            hidden, scores = block.with_scores(hidden, memory, own_mask, source_mask)
            decoder.append(scores)
        found = {"encoder": (encoder, "s"), "decoder": (decoder, "s"), "cross": (decoder, "c")}
        return {
            name: [ops.cast(each[letter], "float32") for each in scores if letter in each]
            for name, (scores, letter) in found.items()
        }

    def for_inference(self, dtype: str = "float32") -> Self:
        """A copy in another dtype, whose output projection has a kernel of its own."""
        if not self._config["tie_output"]:
            return copy_of(self, dtype=dtype)
        return untied_copy_of(self, lambda model: model.target_embedding.embedding, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._config, **layer_states(self)}

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        # Once an argument; now of `compile_for_translation`.
        config = {name: value for name, value in config.items() if name != "rdrop"}
        return super().from_config(config, custom_objects)


def _orders(name, sublayers, block, num_layers):
    """The sublayers of each block, such as `["s", "sf", "f"]` for `"ssff"`."""
    if sublayers is None:
        return [block] * num_layers
    if not sublayers or set(sublayers) - set(block) or (block[1:-1] not in sublayers):
        raise ValueError(
            f"{name} must be a string of the letters {', '.join(block)}"
            f"{', with a c' if 'c' in block else ''}. Received: {name}={sublayers!r}"
        )
    orders = [""]
    for letter in sublayers:
        if letter in orders[-1]:
            orders.append("")
        orders[-1] += letter
    return orders


def _in_turn(x, *layers):
    """Applies the layers that are not None, one after another."""
    for layer in layers:
        if layer is not None:
            x = layer(x)
    return x
