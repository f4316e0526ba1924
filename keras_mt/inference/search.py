"""Rows of pieces to hypotheses, by a search in batches of similar length."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding import Hypotheses, SearchOptions, beam_search
from keras_mt.inference.predictors import Predictor
from keras_mt.text import BaseTokenizer

# The maximum number of rows of a batch, and of its tokens: its longest row's times their number.
_BATCH_ROWS = 256
_BATCH_TOKENS = 64 * 256


class Rows(NamedTuple):
    """Padded rows of ids.

    Attributes:
        ids: int32 `[rows, length]`.
        lengths: int32 `[rows]`.

    Example:

    >>> Rows(tf.constant([[5, 3, 0]]), tf.constant([2])).lengths.numpy().tolist()
    [2]
    """

    ids: tf.Tensor
    lengths: tf.Tensor


def padded(ids: tf.RaggedTensor, padding_id: int) -> Rows:
    """Rows from ragged ids `[rows, (tokens)]`."""
    return Rows(ids.to_tensor(padding_id), tf.cast(ids.row_lengths(), tf.int32))


class Searcher:
    """Searches for the translations of rows of pieces.

    Args:
        predictor: The `Predictor`.
        tokenizer: Its `BaseTokenizer`.
        options: `SearchOptions`.
        max_length: The maximum number of tokens to generate, or None for twice the source's plus
            10.
    """

    def __init__(
        self,
        predictor: Predictor,
        tokenizer: BaseTokenizer,
        options: SearchOptions,
        max_length: int | None = None,
    ):
        self.predictor, self.tokenizer = predictor, tokenizer
        self.options, self.max_length = options, max_length

    def search_pieces(
        self,
        pieces: tf.RaggedTensor,
        skipped: tf.Tensor,
        languages: tuple[tf.Tensor, ...] = (),
        prefix: Rows | None = None,
        **arguments: Any,
    ) -> Hypotheses:
        """Hypotheses for ragged pieces `[rows, (tokens)]`; the other arguments as in `search`."""
        source = self.tokenizer.source_ids(pieces, *languages)
        if prefix is not None:
            prefix = tf.RaggedTensor.from_tensor(*prefix)
        forced, forced_length = self.tokenizer.forced_ids(*languages[1:]), None
        if forced is not None:
            rows, count = pieces.nrows(), forced.shape[1]
            forced = tf.broadcast_to(tf.cast(forced, tf.int32), (rows, count))
            forced, forced_length = tf.RaggedTensor.from_tensor(forced), tf.fill((rows,), count)
            prefix = forced if prefix is None else tf.concat([forced, prefix], axis=1)
        return self.search(
            padded(source, self.tokenizer.padding_id).ids,
            tf.cast(pieces.row_lengths(), tf.int32),
            skipped,
            prefix,
            forced_length,
            row_seeds=_hashes(source) if self.options.samples else None,
            **arguments,
        )

    def search(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        skipped: tf.Tensor,
        prefix: tf.Tensor | tf.RaggedTensor | None = None,
        forced_length: tf.Tensor | None = None,
        row_options: dict[str, tf.Tensor] | None = None,
        row_seeds: tf.Tensor | None = None,
    ) -> Hypotheses:
        """Runs `beam_search` for sources given as ids.

        Args:
            source: int32 `[rows, length]`, padded, special ids included, as the model reads them.
            lengths: int32 `[rows]`: their numbers of pieces, without special ids.
            skipped: Boolean `[rows]`: which rows not to search for.
            prefix, forced_length, row_seeds: As in `beam_search`.
            row_options: As in `TranslationGraph.translate`.
        """
        max_length = self._max_lengths(lengths, prefix, row_options)
        if row_options is not None:
            names = "beam_size", "n_best", "length_penalty"
            row_options = {name: row_options[name] for name in names}
        special = {n: getattr(self.tokenizer, n) for n in ("bos_id", "eos_id", "padding_id")}
        forbidden = self.tokenizer.forbidden_ids
        given = prefix
        if isinstance(prefix, tf.RaggedTensor):
            given = prefix.to_tensor(self.tokenizer.padding_id)
        ids = sorted({*special.values(), *forbidden})
        predictor = self.predictor.for_batch(source, ids, given)
        vocabulary = predictor.vocabulary
        hypotheses = beam_search(
            predictor.step,
            lambda beams: predictor.start(source, beams),
            tf.where(skipped, 0, max_length),
            prefix=None if prefix is None else vocabulary.index(prefix),
            forced_length=forced_length,
            row_options=row_options,
            row_seeds=row_seeds,
            reorder=predictor.reorder,
            normalize=predictor.gives_logits,
            forbidden_ids=[vocabulary.index(i) for i in forbidden],
            **{name: vocabulary.index(i) for name, i in special.items()},
            **dataclasses.asdict(self.options),
        )
        return hypotheses._replace(tokens=vocabulary.id(hypotheses.tokens))

    def _max_lengths(self, lengths, prefix, row_options):
        """The maximum number of tokens that each row generates."""
        limit = self.predictor.max_length
        if self.max_length is None:
            max_length = tf.maximum(2 * lengths + 10, self.options.min_length)
            max_length = tf.minimum(max_length, limit)
        else:
            max_length = tf.fill(tf.shape(lengths), self.max_length)
        if row_options is not None:
            asked = row_options["max_length"]
            max_length = tf.where(asked > 0, asked, max_length)
        if prefix is not None:
            if isinstance(prefix, tf.RaggedTensor):
                longer = tf.cast(prefix.row_lengths(), tf.int32)
            else:
                longer = tf.shape(prefix)[1]
            max_length = tf.maximum(max_length, tf.minimum(longer + 1, limit))
        return max_length


def in_batches(
    function: Callable[..., dict[str, tf.Tensor]],
    rows: tf.RaggedTensor,
    columns: dict[str, Any],
    empty: dict[str, tf.Tensor],
    padding: dict[str, int],
) -> dict[str, tf.Tensor]:
    """Runs a function on batches of rows of similar length.

    Args:
        function: Takes some of the rows, and of the columns as keywords.
        rows: Ragged `[rows, (tokens)]`.
        columns: Nests of tensors `[rows, ...]`.
        empty: The function's outputs for no rows, `[0, n]` or `[0, n, 0]`.
        padding: What pads the last axis of an output, by its name; 0 for others.

    Returns:
        The outputs for all rows, in their order; axes of size 0 in `empty` have grown.
    """
    lengths = tf.cast(rows.row_lengths(), tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING")

    def run(start, outputs):
        size = tf.clip_by_value(_BATCH_TOKENS // (lengths[order[start]] + 1), 1, _BATCH_ROWS)
        chosen = order[start : start + size]
        batch = tf.nest.map_structure(lambda x: tf.gather(x, chosen), columns)
        more = function(tf.gather(rows, chosen), **batch)
        return start + size, {
            name: _stacked(before, more[name], padding.get(name, 0))
            for name, before in outputs.items()
        }

    _, outputs = tf.while_loop(
        lambda start, outputs: start < tf.size(order),
        run,
        (0, empty),
        shape_invariants=(
            tf.TensorShape([]),
            {
                name: tf.TensorShape([None, x.shape[1], None][: x.shape.rank])
                for name, x in empty.items()
            },
        ),
        parallel_iterations=1,  # So that memory holds one batch.
    )
    back = tf.math.invert_permutation(order)
    return {name: tf.gather(tensor, back) for name, tensor in outputs.items()}


def _stacked(before, more, padding):
    """Concatenates `[rows, n]`, or padded `[rows, n, length]`, along the rows."""
    if before.shape.rank == 3:
        length = tf.maximum(tf.shape(before)[2], tf.shape(more)[2])
        before, more = (
            tf.pad(x, ((0, 0), (0, 0), (0, length - tf.shape(x)[2])), constant_values=padding)
            for x in (before, more)
        )
    return tf.concat([before, more], axis=0)


def _hashes(ids):
    """An int32 hash of each row of ragged ids."""
    strings = tf.strings.as_string(ids.flat_values)
    joined = tf.strings.unsorted_segment_join(
        strings, ids.value_rowids(), ids.nrows(), separator=" "
    )
    return tf.cast(tf.strings.to_hash_bucket_fast(joined, 2**31 - 1), tf.int32)
