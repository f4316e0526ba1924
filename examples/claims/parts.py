"""A Transformer put together from the library's layers, without some of its parts."""

import functools

import keras
from keras import ops

from keras_mt.layers import (
    CausalSelfAttention,
    CrossAttention,
    FeedForward,
    MultiHeadAttention,
    PositionalEmbedding,
)
from keras_mt.models import Seq2Seq


class Parts(Seq2Seq, keras.Model):
    """A post-norm Transformer of which parts can be left out, or whose encoder can be GRUs.

    It decodes one hypothesis, and computes it from the start at each step: short, not fast.
    """

    def __init__(
        self, vocab_size, num_layers, d_model, num_heads, d_ff,
        residual=True, norm=True, gru_encoder=False,
    ):  # fmt: skip
        super().__init__()
        self.vocab_size = self.source_vocab_size = self.target_vocab_size = vocab_size
        self.d_model, self.max_length, self.padding_id = d_model, 64, 0
        self.residual = residual
        self.embedding = PositionalEmbedding(vocab_size, d_model)
        self.encoder, self.decoder = [], []
        for _ in range(num_layers):
            if gru_encoder:
                gru = keras.layers.GRU(d_model // 2, return_sequences=True)
                self.encoder += [keras.layers.Bidirectional(gru)]
            else:
                self.encoder += [MultiHeadAttention(num_heads), FeedForward(d_ff)]
            self.decoder += [CausalSelfAttention(num_heads), CrossAttention(num_heads)]
            self.decoder += [FeedForward(d_ff)]
        new_norm = keras.layers.Identity
        if norm:
            new_norm = functools.partial(keras.layers.LayerNormalization, epsilon=1e-5)
        self.encoder_norms = [new_norm() for _ in self.encoder]
        self.decoder_norms = [new_norm() for _ in self.decoder]

    def encode(self, source):
        hidden, mask = self.embedding(source), ops.not_equal(source, self.padding_id)
        for layer, norm in zip(self.encoder, self.encoder_norms, strict=True):
            if isinstance(layer, MultiHeadAttention):
                new = layer(hidden, hidden, value_mask=mask)
            elif isinstance(layer, FeedForward):
                new = layer(hidden)
            else:
                new = layer(hidden, mask=mask)
            hidden = norm(hidden + new if self.residual else new)
        return hidden, mask

    def decode(self, target, memory, memory_mask):
        hidden = self.embedding(target)
        for layer, norm in zip(self.decoder, self.decoder_norms, strict=True):
            if isinstance(layer, CrossAttention):
                new = layer(hidden, memory, memory_mask=memory_mask)
            else:
                new = layer(hidden)
            hidden = norm(hidden + new if self.residual else new)
        return self.embedding(hidden, reverse=True)

    def call(self, inputs):
        return self.decode(inputs["target"], *self.encode(inputs["source"]))

    def start_decoding(self, source, beams=1):
        memory, mask = self.encode(source)
        target = ops.zeros((ops.shape(source)[0], self.max_length), "int32")
        return {"memory": memory, "memory_mask": mask, "target": target}

    def decode_step(self, tokens, position, cache, mask=None):
        here = ops.equal(ops.arange(self.max_length), position)
        cache = {**cache, "target": ops.where(here, tokens, cache["target"])}
        logits = self.decode(cache["target"], cache["memory"], cache["memory_mask"])
        return ops.take(logits, position, axis=1)[:, None], cache
