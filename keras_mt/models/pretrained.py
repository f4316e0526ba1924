"""The Transformer of MarianMT, M2M-100 and NLLB."""

import functools
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_mt.layers import DecoderBlock, EncoderBlock, PositionalEmbedding, sinusoidal_positions
from keras_mt.layers.blocks import norm_layer
from keras_mt.layers.types import Activation, DType, Shape
from keras_mt.layers.validation import check_divisible, check_one_of, check_positive
from keras_mt.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="keras_mt")
class PretrainedTransformer(Transformer):
    """A Transformer with the options of MarianMT, M2M-100 and NLLB, for their weights.

    By default it is that of MarianMT. `keras-mt import` makes it from a folder of weights; it
    trains, decodes and is exported as a `Transformer` is, and has the same presets.

    Args:
        vocab_size: Number of tokens of the source, and of the target unless `target_vocab_size`
            says otherwise.
        num_layers, d_model, num_heads, d_ff, dropout, activation: As in `Transformer`.
        pre_norm: Whether to normalise before each sublayer rather than after.
        share_embeddings: Whether source and target embed with the same weights.
        tie_output: Whether the output projection shares the target's embedding weights.
        max_length: The longest source or target, in tokens.
        padding_id: The padding token of source and target.
        num_encoder_layers, num_decoder_layers: Numbers of blocks; None for `num_layers`.
        dtype: A dtype or a policy.
        target_vocab_size: Number of tokens of the target; None for `vocab_size`.
        num_encoder_heads, num_decoder_heads: Numbers of heads; None for `num_heads`.
        encoder_d_ff, decoder_d_ff: Inner widths of the feed-forward networks; None for `d_ff`.
        positions: Which sinusoids. `"marian"`: the paper's, but first all sines and then all
            cosines. `"fairseq"`: the same with the rates `10000^(-j / (d_model / 2 - 1))` and
            positions that count from `padding_id + 1`.
        scale_embeddings: Whether embeddings are multiplied by `sqrt(d_model)`.
        normalize_embeddings: Whether the sum of embeddings and positions is normalised.
        final_norm: Whether both stacks end with a normalisation; None for `pre_norm`.
        logits_bias: Whether a bias, which does not train, is added to the logits.
        **kwargs: `name`.

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Junczys-Dowmunt et al. 2018, Marian: Fast Neural Machine Translation in C++
        (https://arxiv.org/abs/1804.00344); Fan et al. 2020, Beyond English-Centric Multilingual
        Machine Translation (https://arxiv.org/abs/2010.11125); NLLB Team 2022, No Language Left
        Behind (https://arxiv.org/abs/2207.04672).

    Example:

    >>> model = PretrainedTransformer(
    ...     100, num_layers=2, d_model=32, num_heads=4, d_ff=64, pre_norm=True, positions="fairseq"
    ... )
    >>> tokens = np.array([[2, 7, 9, 0]])
    >>> tuple(model({"source": tokens, "target": tokens}).shape)
    (1, 4, 100)
    """

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
        target_vocab_size: int | None = None,
        num_encoder_heads: int | None = None,
        num_decoder_heads: int | None = None,
        encoder_d_ff: int | None = None,
        decoder_d_ff: int | None = None,
        positions: str = "marian",
        scale_embeddings: bool = True,
        normalize_embeddings: bool = False,
        final_norm: bool | None = None,
        logits_bias: bool = True,
        **kwargs: Any,
    ):
        # The arguments in which the two stacks may differ, and what they default to.
        sides = {
            "encoder": [
                ("num_encoder_layers", num_encoder_layers, num_layers),
                ("num_encoder_heads", num_encoder_heads, num_heads),
                ("encoder_d_ff", encoder_d_ff, d_ff),
            ],
            "decoder": [
                ("num_decoder_layers", num_decoder_layers, num_layers),
                ("num_decoder_heads", num_decoder_heads, num_heads),
                ("decoder_d_ff", decoder_d_ff, d_ff),
            ],
        }
        check_positive(num_layers=num_layers, num_heads=num_heads, d_ff=d_ff)
        check_one_of(("marian", "fairseq"), positions=positions)
        if share_embeddings and target_vocab_size not in (None, vocab_size):
            raise ValueError(
                "share_embeddings needs one vocabulary. "
                f"Received: vocab_size={vocab_size}, target_vocab_size={target_vocab_size}"
            )
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())

        def embedding(name, size, **options):
            return _Embedding(
                size,
                d_model,
                dropout,
                max_length=max_length,
                padding_id=padding_id,
                sinusoids=positions,
                scale=scale_embeddings,
                normalize=normalize_embeddings,
                dtype=policy,
                name=name,
                **options,
            )

        def blocks(block_class, side):
            sizes = [own if own is not None else common for _, own, common in sides[side]]
            names = [name for name, _, _ in sides[side]]
            check_positive(**dict(zip(names, sizes, strict=True)))
            layers, heads, width = sizes
            check_divisible(**{"d_model": d_model, names[1]: heads})
            return [
                block_class(
                    heads, width, dropout, activation, pre_norm, dtype=policy, name=f"{side}_{i}"
                )
                for i in range(layers)
            ]

        target_embedding = embedding(
            "embedding" if share_embeddings and not normalize_embeddings else "target_embedding",
            vocab_size if target_vocab_size is None else target_vocab_size,
            tie_weights=tie_output,
            logits_bias=logits_bias,
        )
        source_embedding = target_embedding
        if not share_embeddings:
            source_embedding = embedding("source_embedding", vocab_size)
        elif normalize_embeddings:  # Each side has its own normalisation.
            source_embedding = embedding(
                "source_embedding", vocab_size, _embedding=target_embedding.embedding
            )
        ends_in_norm = pre_norm if final_norm is None else final_norm
        norms = [
            norm_layer("layer", policy, f"{side}_norm") if ends_in_norm else None for side in sides
        ]
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
            **{name: own for side in sides.values() for name, own, _ in side},
            "target_vocab_size": target_vocab_size,
            "positions": positions,
            "scale_embeddings": scale_embeddings,
            "normalize_embeddings": normalize_embeddings,
            "final_norm": final_norm,
            "logits_bias": logits_bias,
        }
        self._compose(
            config,
            (source_embedding, target_embedding),
            (blocks(EncoderBlock, "encoder"), blocks(DecoderBlock, "decoder")),
            norms,
            policy,
            **kwargs,
        )


@functools.lru_cache(maxsize=8)
def _sinusoids(layout, length, d_model, padding_id):
    if layout == "marian":
        table = sinusoidal_positions(length, d_model)
        table = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)
    else:
        # In float32, as fairseq has them.
        rates = np.arange(d_model // 2, dtype="float32") * np.float32(
            -math.log(10000) / (d_model // 2 - 1)
        )
        places = np.arange(padding_id + 1, padding_id + 1 + length, dtype="float32")
        angles = places[:, None] * np.exp(rates)
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table.flags.writeable = False
    return table


@keras.saving.register_keras_serializable(package="keras_mt")
class _Embedding(PositionalEmbedding):
    """A `PositionalEmbedding` with the sinusoids, norm and bias of pretrained models."""

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        dropout: float = 0.0,
        *,
        sinusoids: str = "marian",
        normalize: bool = False,
        logits_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab_size, d_model, dropout, **kwargs)
        self.sinusoids = sinusoids
        self.normalize = normalize
        self.has_logits_bias = logits_bias
        self.norm = norm_layer("layer", self.dtype_policy, "norm") if normalize else None

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if self.norm is not None:
            self.norm.build((None, None, self.d_model))
        if self.has_logits_bias:
            self.logits_bias = self.add_weight(
                (self.vocab_size,), "zeros", trainable=False, name="logits_bias"
            )

    def _biased(self, logits, tokens=None):
        if not self.has_logits_bias:
            return logits
        bias = self.logits_bias if tokens is None else ops.take(self.logits_bias, tokens)
        return logits + ops.cast(bias, logits.dtype)

    def _table(self):
        return _sinusoids(self.sinusoids, self.max_length, self.d_model, self.padding_id)

    def _finished(self, hidden):
        return hidden if self.norm is None else self.norm(hidden)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "sinusoids": self.sinusoids,
            "normalize": self.normalize,
            "logits_bias": self.has_logits_bias,
        }
