"""The encoder-decoder Transformer as a functional Keras model."""

import keras
from keras import ops

from keras_mt.layers import DecoderBlock, EncoderBlock, PositionalEmbedding
from keras_mt.layers.validation import check_positive

# `model`: arguments of Transformer. `training`: what the same source trains it with, and what
# `keras-mt train` takes unless told otherwise. base and big are Vaswani et al. 2017, table 3;
# tiny is for corpora of some ten thousand pairs.
PRESETS = {
    "tiny": {
        "model": {"num_layers": 4, "d_model": 128, "num_heads": 4, "d_ff": 256, "dropout": 0.3},
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
class Transformer(keras.Model):
    """The encoder-decoder Transformer for translation, a functional `keras.Model`.

    Inputs `{"source": int32 [batch, source_length], "target": int32 [batch, target_length]}`, the
    target beginning with the start token; output float32 logits
    `[batch, target_length, vocab_size]`, at each position for the token that comes next. Token 0
    is padding.

    Args:
        vocab_size: Number of tokens of the joint vocabulary.
        num_layers: Number of encoder blocks, and of decoder blocks.
        d_model: Width of the model; must be even.
        num_heads: Number of attention heads; must divide `d_model`.
        d_ff: Inner width of the feed-forward networks.
        dropout: Rate of dropout on the embeddings and on the output of each sublayer.
        activation: Activation of the feed-forward networks.
        pre_norm: Whether to normalise before each sublayer rather than after.
        share_embeddings: Whether source and target embed with the same weights.
        tie_output: Whether the output projection shares the target's embedding weights.
        max_length: The longest source or target, in tokens.
        **kwargs: `name` and `dtype` (a dtype or a policy such as `"mixed_bfloat16"`).

    Raises:
        ValueError: If an argument is impossible; the message names it.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need (https://arxiv.org/abs/1706.03762).

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
        vocab_size,
        num_layers=6,
        d_model=512,
        num_heads=8,
        d_ff=2048,
        dropout=0.1,
        activation="relu",
        pre_norm=False,
        share_embeddings=True,
        tie_output=True,
        max_length=1024,
        dtype=None,
        **kwargs,
    ):
        check_positive(num_layers=num_layers, num_heads=num_heads)
        if d_model % num_heads:
            raise ValueError(
                "d_model must be divisible by num_heads. "
                f"Received: d_model={d_model}, num_heads={num_heads}"
            )
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        def embedding(name, tie_weights=True):
            return PositionalEmbedding(
                vocab_size,
                d_model,
                dropout,
                max_length=max_length,
                tie_weights=tie_weights,
                dtype=policy,
                name=name,
            )

        def block(block_class, name):
            return block_class(
                num_heads, d_ff, dropout, activation, pre_norm, dtype=policy, name=name
            )

        def final_norm(name):
            return keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name=name)

        target_embedding = embedding(
            "embedding" if share_embeddings else "target_embedding", tie_output
        )
        source_embedding = target_embedding if share_embeddings else embedding("source_embedding")
        encoder_blocks = [block(EncoderBlock, f"encoder_{i}") for i in range(num_layers)]
        decoder_blocks = [block(DecoderBlock, f"decoder_{i}") for i in range(num_layers)]
        encoder_norm = final_norm("encoder_norm") if pre_norm else None
        decoder_norm = final_norm("decoder_norm") if pre_norm else None

        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        memory = _in_turn(source, source_embedding, *encoder_blocks, encoder_norm)
        hidden = target_embedding(target)
        for decoder_block in decoder_blocks:
            hidden = decoder_block(hidden, memory)
        logits = target_embedding(_in_turn(hidden, decoder_norm), reverse=True)
        super().__init__(inputs={"source": source, "target": target}, outputs=logits, **kwargs)
        # Not before: torch wants its own constructor first.
        self.source_embedding, self.target_embedding = source_embedding, target_embedding
        self.encoder_blocks, self.decoder_blocks = encoder_blocks, decoder_blocks
        self.encoder_norm, self.decoder_norm = encoder_norm, decoder_norm
        self.dtype_policy = policy
        self._config = {
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
        }
        for name in ("vocab_size", "d_model", "max_length"):
            setattr(self, name, self._config[name])

    @classmethod
    def from_preset(cls, preset, **kwargs):
        """A Transformer of a known size: `"tiny"`, `"base"` or `"big"`.

        Args:
            preset: Name of the preset; `keras_mt.models.PRESETS` shows what each holds.
            **kwargs: `vocab_size`, and any argument of the constructor to set otherwise.

        Returns:
            An untrained `Transformer`.

        Raises:
            ValueError: If there is no such preset.

        Example:

        >>> Transformer.from_preset("tiny", vocab_size=1000).count_params()
        1453056
        """
        if preset not in cls.presets:
            raise ValueError(f"Unknown preset {preset!r}; there are {', '.join(cls.presets)}.")
        return cls(**{**cls.presets[preset]["model"], **kwargs})

    def encode(self, source):
        """The encoder's output, which the decoder attends to.

        Args:
            source: Integer tokens `[batch, source_length]`.

        Returns:
            Float tensor `[batch, source_length, d_model]`, which carries the mask of the tokens.
        """
        return _in_turn(source, self.source_embedding, *self.encoder_blocks, self.encoder_norm)

    def start_decoding(self, source):
        """Encodes the source and begins a step-by-step decoding.

        Args:
            source: Integer tokens `[batch, source_length]`.

        Returns:
            The cache for the first `decode_step`: a nest of tensors whose first axis is the batch.
        """
        memory = self.encode(source)
        batch_size = ops.shape(source)[0]
        return {
            "target": [b.self_attention.empty_cache(batch_size) for b in self.decoder_blocks],
            "memory": [b.cross_attention.project(memory) for b in self.decoder_blocks],
            "memory_mask": ops.not_equal(source, 0),
        }

    def decode_step(self, tokens, position, cache, mask=None):
        """Logits for the token after `tokens`, computed from the cache of the positions before.

        The tokens `[batch, beams]` all stand at `position`; `mask` says which of the cached
        positions, and of the new ones at their end, belong to each.

        Args:
            tokens: Integer tokens `[batch, beams]`.
            position: Their position, from 0.
            cache: From `start_decoding` or the step before.
            mask: Boolean `[batch, beams, position * beams + beams]`, or None for a single beam.

        Returns:
            Float32 logits `[batch, beams, vocab_size]` and the grown cache.
        """
        hidden = self.target_embedding(tokens, positions=position)
        # [batch * beams, d_model]: products of two dimensions take their bias and ReLU along.
        hidden = ops.reshape(hidden, (-1, self.d_model))
        grown = []
        for block, *caches in zip(
            self.decoder_blocks, cache["target"], cache["memory"], strict=True
        ):
            hidden, block_cache = block.step(
                hidden, caches[0], mask, caches[1], cache["memory_mask"]
            )
            grown.append(block_cache)
        logits = self.target_embedding(_in_turn(hidden, self.decoder_norm), reverse=True)
        logits = ops.reshape(logits, (-1, tokens.shape[1], self.vocab_size))
        return logits, {**cache, "target": grown}

    def get_config(self):
        return {
            **self._config,
            "name": self.name,
            "trainable": self.trainable,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "frozen": [layer.name for layer in self.layers if not layer.trainable],
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        frozen = config.pop("frozen", [])
        config.pop("rdrop", None)  # Once an argument; now of `compile_for_translation`.
        model = cls(**config)
        for name in frozen:
            model.get_layer(name).trainable = False
        return model


def _in_turn(x, *layers):
    """The layers, those that are not None, one after another."""
    for layer in layers:
        if layer is not None:
            x = layer(x)
    return x
