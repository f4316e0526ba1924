"""Rows of ids: searched for hypotheses, and computed on in batches of similar length."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from keras_mt.decoding import Hypotheses, beam_search
from keras_mt.inference.predictors import Predictor
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer

_Nest = TypeVar("_Nest")


def search(
    predictor: Predictor,
    tokenizer: BaseTokenizer,
    options: TranslationOptions,
    source: tf.Tensor | tf.RaggedTensor,
    lengths: tf.Tensor,
    skipped: tf.Tensor,
    prefix: tf.Tensor | tf.RaggedTensor | None = None,
    **arguments: Any,
) -> Hypotheses:
    """Searches for the translations of rows of source ids `[rows, length]`.

    `lengths` `[rows]` are their numbers of pieces, without special ids. `arguments` are
    `forced_length` and `row_seeds` of `beam_search`.
    """
    if isinstance(source, tf.RaggedTensor):
        source = source.to_tensor(tokenizer.padding_id)
    max_length, prefix_ids = _max_lengths(options, lengths, predictor.max_length), prefix
    if prefix is not None:
        if isinstance(prefix, tf.RaggedTensor):
            prefix_ids = prefix.to_tensor(tokenizer.padding_id)
            prefix_lengths = tf.cast(prefix.row_lengths(), tf.int32)
        else:
            prefix_lengths = tf.shape(prefix)[1]
        room = tf.minimum(prefix_lengths + 1, predictor.max_length)
        max_length = tf.maximum(max_length, room)
    special = {name: getattr(tokenizer, name) for name in ("bos_id", "eos_id", "padding_id")}
    forbidden = tokenizer.forbidden_ids
    predictor = predictor.for_batch(source, sorted({*special.values(), *forbidden}), prefix_ids)
    hypotheses = beam_search(
        predictor.step,
        predictor.start(source, options.beams),
        tf.where(skipped, 0, max_length),
        prefix=None if prefix is None else predictor.index(prefix),
        reorder=predictor.reorder,
        normalize=predictor.gives_logits,
        forbidden_ids=[predictor.index(i) for i in forbidden],
        **{name: predictor.index(i) for name, i in special.items()},
        **options.search_arguments(),
        **arguments,
    )
    return hypotheses._replace(tokens=predictor.id(hypotheses.tokens))


def _max_lengths(options, lengths, limit):
    """The maximum numbers of tokens of translations, of sources of `lengths` pieces."""
    if options.max_length is not None:
        return tf.fill(tf.shape(lengths), options.max_length)
    if options.max_length_factor is None:
        max_length = 2 * lengths + 10
    else:
        with_end = tf.cast(lengths + 1, tf.float32)
        max_length = tf.cast(tf.math.ceil(options.max_length_factor * with_end), tf.int32)
    return tf.minimum(tf.maximum(max_length, options.min_length), limit)


def gathered(columns: _Nest, rows: tf.Tensor) -> _Nest:
    """A nest of tensors `[n, ...]` for some of the rows, by their numbers."""
    return tf.nest.map_structure(lambda x: tf.gather(x, rows), columns)


def in_batches(
    function: Callable[..., _Nest],
    lengths: tf.Tensor,
    columns: dict[str, Any],
    empty: _Nest,
    max_rows: int,
    max_tokens: int,
) -> _Nest:
    """Runs a function on batches of rows of similar length; outputs are in the order of the rows.

    A batch has at most `max_rows`, and `max_tokens`: those of its longest row, by `lengths`, times
    their number; but at least one row. The function takes the `columns` `[rows, ...]` as keywords.
    `empty` has its outputs for no rows; their axes of size 0 grow, padded with zeros or "".
    """
    lengths = tf.cast(lengths, tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING")

    def run(start, outputs):
        size = tf.clip_by_value(max_tokens // (lengths[order[start]] + 1), 1, max_rows)
        more = function(**gathered(columns, order[start : start + size]))
        return start + size, tf.nest.map_structure(_stacked, outputs, more)

    _, outputs = tf.while_loop(
        lambda start, outputs: start < tf.size(order),
        run,
        (0, empty),
        shape_invariants=(tf.TensorShape([]), tf.nest.map_structure(_grown_shape, empty)),
        parallel_iterations=1,  # So that memory holds one batch.
    )
    return gathered(outputs, tf.math.invert_permutation(order))


def _grown_shape(empty):
    return tf.TensorShape([None, *(size or None for size in empty.shape[1:])])


def _stacked(before, more):
    """Concatenates along the rows; other axes are padded to the longer of the two."""
    sizes = tf.maximum(tf.shape(before), tf.shape(more))
    is_fixed = [a is not None and a == b for a, b in zip(before.shape, more.shape, strict=True)]

    def grown(x):
        missing = tf.unstack(sizes - tf.shape(x))
        sides = [(0, 0 if fixed else n) for n, fixed in zip(missing, is_fixed, strict=True)]
        return tf.pad(x, [(0, 0), *sides[1:]])

    return tf.concat([grown(before), grown(more)], axis=0)
