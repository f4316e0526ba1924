"""Keras layers of the Transformer, each usable alone in any Keras model and on any backend."""

from keras_mt.layers.attention import CausalSelfAttention, CrossAttention, MultiHeadAttention
from keras_mt.layers.blocks import DecoderBlock, EncoderBlock
from keras_mt.layers.dot_product import scaled_dot_product_attention
from keras_mt.layers.feed_forward import FeedForward
from keras_mt.layers.mixture_of_experts import MixtureOfExperts
from keras_mt.layers.positional_embedding import (
    PositionalEmbedding,
    sinusoidal_positions,
    target_mask,
)
from keras_mt.layers.relative_positions import RelativePositions
from keras_mt.layers.rotary import rotate_by_position
from keras_mt.layers.ssru import SSRU
from keras_mt.layers.token_masking import TokenMasking

__all__ = [
    "SSRU",
    "CausalSelfAttention",
    "CrossAttention",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "MixtureOfExperts",
    "MultiHeadAttention",
    "PositionalEmbedding",
    "RelativePositions",
    "TokenMasking",
    "rotate_by_position",
    "scaled_dot_product_attention",
    "sinusoidal_positions",
    "target_mask",
]
