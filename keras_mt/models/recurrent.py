"""The recurrent encoder-decoder, with attention or without."""

import functools
import itertools
import math
from typing import Any, ClassVar, Self

import keras
from keras import ops

from keras_mt.layers.dropout import Dropout
from keras_mt.layers.layer import arguments_of
from keras_mt.layers.positional_embedding import token_embedding
from keras_mt.layers.types import DType, Tensor
from keras_mt.layers.validation import check_one_of
from keras_mt.models.mixins import RecordedModel
from keras_mt.models.seq2seq import Cache, Seq2Seq

CELLS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}
ATTENTIONS = ("additive", "dot", "bilinear", "none")

_LUONG = {"cell": "lstm", "attention": "bilinear"}
_TRAINING = {"label_smoothing": 0.1, "warmup_steps": 400, "batch_tokens": 4096, "clip_norm": 5.0}


@keras.saving.register_keras_serializable(package="keras_mt")
class Recurrent(RecordedModel, Seq2Seq, keras.Model):
    """The recurrent encoder-decoder for translation: what came before the Transformer.

    Called on `{"source": int32 [batch, source_length], "target": int32 [batch, target_length]}`,
    the target beginning with the start token, it returns float32 logits
    `[batch, target_length, vocab_size]`, at each position for the token that comes next.

    The encoder is bidirectional in each of its layers, as in Chen et al. 2018 (and in the single
    layer of Bahdanau et al. 2015), each direction half as wide as the model. Each layer of the
    decoder, which is unidirectional, starts from the last states of both directions of the
    encoder's layer of the same depth. With the states `h_i` of the decoder's last layer, `m_j` of
    the encoder's, the embeddings `E` of the output projection, and learned `W_h`, `W_m`, `W_c`,
    `b` and `v`:

        e_ij = v . tanh(W_h h_i + W_m m_j)      additive
        e_ij = h_i . m_j                        dot
        e_ij = h_i . W_m m_j                    bilinear
        c_i = sum_j softmax_j(e_ij) m_j
        logits_i = tanh(W_c [c_i; h_i] + b) E^T

    With the attention `"none"` the logits are `h_i E^T`: all that the decoder knows of the source
    is the states that it starts from, of a fixed size, as in Sutskever et al. 2014.

    The decoder attends with its state at the same position, and the context is not fed to the next
    position (Luong et al. 2015 without input feeding). So the recurrent layers read a whole target
    first, and then attention and logits are computed for all positions at once.

    Args:
        vocab_size: Number of tokens of the joint vocabulary.
        num_layers: Number of recurrent layers of the encoder, and of the decoder.
        d_model: Width of the embeddings and of the states; must be even.
        dropout: Rate of dropout on the embeddings, between the layers and before the logits.
        cell: `"gru"` or `"lstm"`.
        attention: `"additive"`, `"dot"`, `"bilinear"` or `"none"`.
        share_embeddings, tie_output, max_length, padding_id: As in `Transformer`.
        **kwargs: As in `Transformer`.

    Raises:
        ValueError: If an argument is invalid; the message names it.

    Reference:
        Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215); Bahdanau et al. 2015
        (https://arxiv.org/abs/1409.0473); Luong et al. 2015 (https://arxiv.org/abs/1508.04025);
        Chen et al. 2018 (https://arxiv.org/abs/1804.09849).

    Example:

    >>> model = Recurrent(vocab_size=100, d_model=32, cell="lstm", attention="bilinear")
    >>> tokens = np.array([[2, 7, 9, 0]])
    >>> tuple(model({"source": tokens, "target": tokens}).shape)
    (1, 4, 100)
    >>> tuple(model.attention(tokens, tokens).shape)
    (1, 4, 4)
    """

    # tiny is for corpora of tens of thousands of pairs; luong has the sizes of Luong et al. 2015,
    # who clip gradients at 5 too.
    presets: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "tiny": {
            "model": {"num_layers": 2, "d_model": 192, "dropout": 0.3},
            "training": {**_TRAINING, "learning_rate": 0.003},
        },
        "luong": {
            "model": {"num_layers": 4, "d_model": 1000, "dropout": 0.2, **_LUONG},
            "training": {**_TRAINING, "learning_rate": 0.001},
        },
    }

    def __init__(
        self,
        vocab_size: int,
        num_layers: int = 2,
        d_model: int = 512,
        dropout: float = 0.1,
        cell: str = "gru",
        attention: str = "additive",
        share_embeddings: bool = True,
        tie_output: bool = True,
        max_length: int = 1024,
        padding_id: int = 0,
        dtype: DType = None,
        **kwargs: Any,
    ):
        arguments = arguments_of(locals())
        if d_model % 2:
            raise ValueError(
                "d_model must be even: each direction of the encoder has half of it. "
                f"Received: d_model={d_model}"
            )
        check_one_of(tuple(CELLS), cell=cell)
        check_one_of(ATTENTIONS, attention=attention)
        super().__init__(dtype=dtype, **kwargs)
        self._record(arguments)
        policy, additive = self.dtype_policy, attention == "additive"
        recurrent = functools.partial(
            CELLS[cell],
            return_sequences=True,
            return_state=True,
            recurrent_initializer="glorot_uniform",  # Keras's own has no bfloat16.
            dtype=policy,
        )
        dense = functools.partial(keras.layers.Dense, d_model, dtype=policy)
        embedding = functools.partial(token_embedding, vocab_size, d_model, policy=policy)
        name = "embedding" if share_embeddings else "target_embedding"
        self.target_embedding = embedding(tie_weights=tie_output, name=name)
        self.source_embedding = self.target_embedding
        if not share_embeddings:
            self.source_embedding = embedding(tie_weights=True, name="source_embedding")
        self.encoder_layers = [
            keras.layers.Bidirectional(
                recurrent(d_model // 2, name="layer"), dtype=policy, name=f"encoder_{i}"
            )
            for i in range(num_layers)
        ]
        self.decoder_layers = [recurrent(d_model, name=f"decoder_{i}") for i in range(num_layers)]
        self.query_projection = dense(use_bias=False, name="query") if additive else None
        has_keys = attention in ("additive", "bilinear")
        self.key_projection = dense(use_bias=False, name="key") if has_keys else None
        self.attention_layer = self.combination = None
        if attention != "none":
            layer = keras.layers.AdditiveAttention if additive else keras.layers.Attention
            self.attention_layer = layer(dtype=policy, name="attention")
            self.combination = dense(activation="tanh", name="combination")
        self.dropout_layer = Dropout(dropout, dtype=policy)
        self.build()  # Every width is known: the weights are there from the start.

    def build(self, input_shape: Any = None) -> None:
        states = (None, None, self.d_model)
        for layer in (self.source_embedding, self.target_embedding):
            if not layer.built:
                layer.build(states[:2])
        projections = filter(None, (self.query_projection, self.key_projection))
        for layer in (*self.encoder_layers, *self.decoder_layers, *projections):
            layer.build(states)
        if self.attention_layer is not None:
            self.attention_layer.build([states] * 3)
            self.combination.build((None, None, 2 * self.d_model))

    def call(self, inputs: dict[str, Tensor]) -> Tensor:
        return self._decode(inputs["source"], inputs["target"])[0]

    def _decode(self, source, target):
        """The logits, and how much each target position attends to each source token."""
        memory, states = self._encode(source)
        hidden = self._embedded(self.target_embedding, target)
        for layer, state in zip(self.decoder_layers, states, strict=True):
            hidden, *_ = layer(self.dropout_layer(hidden), initial_state=state)
        return self._attend(hidden, memory)

    def _embedded(self, embedding, tokens):
        return embedding(tokens) * math.sqrt(self.d_model)

    def _encode(self, source):
        """The memory that attention reads, and the states that each decoder layer starts from."""
        mask = ops.not_equal(source, self.padding_id)
        hidden, states = self._embedded(self.source_embedding, source), []
        for layer in self.encoder_layers:
            hidden, *last = layer(self.dropout_layer(hidden), mask=mask)
            half = len(last) // 2
            directions = zip(last[:half], last[half:], strict=True)
            states.append([ops.concatenate(both, axis=-1) for both in directions])
        if self.attention_layer is None:
            return {}, states
        keys = hidden if self.key_projection is None else self.key_projection(hidden)
        return {"values": hidden, "keys": keys, "mask": mask}, states

    def _attend(self, hidden, memory):
        """The logits of the decoder's states, and their attention."""
        scores = None
        if self.attention_layer is not None:
            query = hidden if self.query_projection is None else self.query_projection(hidden)
            context, scores = self.attention_layer(
                [query, memory["values"], memory["keys"]],
                mask=[None, memory["mask"]],
                return_attention_scores=True,
            )
            hidden = self.combination(ops.concatenate([context, hidden], axis=-1))
        logits = self.target_embedding(self.dropout_layer(hidden), reverse=True)
        return ops.cast(logits, "float32"), scores

    def start_decoding(self, source: Tensor, beams: int | Tensor = 1) -> Cache:
        """See `Seq2Seq.start_decoding`.

        The hypotheses of a source share what they attend to, and have states of their own.
        """
        memory, states = self._encode(source)
        states = keras.tree.map_structure(
            lambda state: ops.repeat(state[:, None], beams, axis=1), states
        )
        return {"memory": memory, "states": states}

    def decode_step(
        self, tokens: Tensor, position: int | Tensor, cache: Cache, mask: Tensor | None = None
    ) -> tuple[Tensor, Cache]:
        """See `Seq2Seq.decode_step`; the logits are float32."""
        rows, beams = ops.shape(tokens)
        hidden = self._embedded(self.target_embedding, ops.reshape(tokens, (-1,)))
        states = []
        for layer, before in zip(self.decoder_layers, cache["states"], strict=True):
            flat = [ops.reshape(state, (-1, self.d_model)) for state in before]
            hidden, after = layer.cell(hidden, flat)
            states.append([ops.reshape(state, (rows, beams, self.d_model)) for state in after])
        hidden = ops.reshape(hidden, (rows, beams, self.d_model))
        logits, _ = self._attend(hidden, cache["memory"])
        return logits, {**cache, "states": states}

    def reorder_cache(self, cache: Cache, parents: Tensor) -> Cache:
        """See `Seq2Seq.reorder_cache`."""
        rows, beams = ops.shape(parents)
        places = ops.reshape(ops.arange(rows)[:, None] * beams + parents, (-1,))

        def reordered(state):
            flat = ops.reshape(state, (-1, self.d_model))
            return ops.reshape(ops.take(flat, places, axis=0), (rows, beams, self.d_model))

        return {**cache, "states": keras.tree.map_structure(reordered, cache["states"])}

    def attention(self, source: Tensor, target: Tensor) -> Tensor | None:
        """See `Seq2Seq.attention`; None for a model whose attention is `"none"`."""
        _, scores = self._decode(source, target)
        return None if scores is None else ops.cast(scores, "float32")

    def for_inference(self, dtype: str = "float32") -> Self:
        """A copy in another dtype, laid out for decoding.

        See `Seq2Seq.for_inference`. On TensorFlow the copy does not use cuDNN, whose operations
        only a GPU has: an export is for any machine.
        """
        copy = super().for_inference(dtype)
        directions = [(e.forward_layer, e.backward_layer) for e in copy.encoder_layers]
        for layer in itertools.chain(copy.decoder_layers, *directions):
            layer.use_cudnn = False
        return copy

    def _output_embedding(self):
        return self.target_embedding
