"""Rows of ids to hypotheses, by a search in batches of similar length."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_mt.decoding import Hypotheses, beam_search
from keras_mt.inference.predictors import Predictor
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer

# The maximum number of rows of a batch, and of its tokens: its longest row's times their number.
# With more beams than these, both are less in proportion: each beam has tokens of its own.
_BATCH_ROWS = 256
_BATCH_TOKENS = 64 * 256
_BATCH_BEAMS = 4


class Rows(NamedTuple):
    """Padded rows of ids."""

    ids: tf.Tensor  # int32 [rows, length]
    lengths: tf.Tensor  # int32 [rows]


def padded(ids: tf.RaggedTensor, padding_id: int) -> Rows:
    """Rows from ragged ids `[rows, (tokens)]`."""
    return Rows(ids.to_tensor(padding_id), tf.cast(ids.row_lengths(), tf.int32))


def search(
    predictor: Predictor,
    tokenizer: BaseTokenizer,
    options: TranslationOptions,
    source: tf.Tensor,
    lengths: tf.Tensor,
    skipped: tf.Tensor,
    prefix: tf.Tensor | tf.RaggedTensor | None = None,
    **arguments: Any,
) -> Hypotheses:
    """Searches for the translations of sources, padded ids `[rows, length]` that a model reads.

    `lengths` `[rows]` are their numbers of pieces, without special ids; `arguments` `forced_length`
    and `row_seeds` of `beam_search`.
    """
    limit = predictor.max_length
    if options.max_length is None:
        if options.max_length_factor is None:
            max_length = 2 * lengths + 10
        else:
            most = tf.math.ceil(options.max_length_factor * tf.cast(lengths + 1, tf.float32))
            max_length = tf.cast(most, tf.int32)
        max_length = tf.maximum(max_length, options.min_length)
        max_length = tf.minimum(max_length, limit)
    else:
        max_length = tf.fill(tf.shape(lengths), options.max_length)
    given = prefix
    if prefix is not None:
        if isinstance(prefix, tf.RaggedTensor):
            given, prefix_lengths = padded(prefix, tokenizer.padding_id)
        else:
            prefix_lengths = tf.shape(prefix)[1]
        max_length = tf.maximum(max_length, tf.minimum(prefix_lengths + 1, limit))
    special = {name: getattr(tokenizer, name) for name in ("bos_id", "eos_id", "padding_id")}
    forbidden = tokenizer.forbidden_ids
    predictor = predictor.for_batch(source, sorted({*special.values(), *forbidden}), given)
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


def gathered(columns: Any, rows: tf.Tensor) -> Any:
    """A nest of tensors `[n, ...]` for some of the rows, by their numbers."""
    return tf.nest.map_structure(lambda x: tf.gather(x, rows), columns)


def in_batches(
    function: Callable[..., dict[str, tf.Tensor]],
    rows: tf.RaggedTensor,
    columns: dict[str, Any],
    empty: dict[str, tf.Tensor],
    beams: int,
) -> dict[str, tf.Tensor]:
    """Runs a function on batches of rows of similar length; outputs are in the order of the rows.

    It takes some of the rows, and of the columns `[rows, ...]` as keywords. `empty` has its outputs
    for no rows, such as `[0, n, 0]`; axes of size 0 grow, padded with
    zeros or "". `beams` are the hypotheses that each row is searched with.
    """
    lengths = tf.cast(rows.row_lengths(), tf.int32)
    order = tf.argsort(lengths, direction="DESCENDING")
    beams = max(beams, _BATCH_BEAMS)
    tokens, most = (x * _BATCH_BEAMS // beams for x in (_BATCH_TOKENS, _BATCH_ROWS))

    def run(start, outputs):
        size = tf.clip_by_value(tokens // (lengths[order[start]] + 1), 1, max(most, 1))
        chosen = order[start : start + size]
        more = function(tf.gather(rows, chosen), **gathered(columns, chosen))
        return start + size, {
            name: _stacked(before, more[name]) for name, before in outputs.items()
        }

    grown = {n: tf.TensorShape([None, *(s or None for s in x.shape[1:])]) for n, x in empty.items()}
    _, outputs = tf.while_loop(
        lambda start, outputs: start < tf.size(order),
        run,
        (0, empty),
        shape_invariants=(tf.TensorShape([]), grown),
        parallel_iterations=1,  # So that memory holds one batch.
    )
    back = tf.math.invert_permutation(order)
    return {name: tf.gather(tensor, back) for name, tensor in outputs.items()}


def _stacked(before, more):
    """Concatenates along the rows; other axes are padded to the longer of the two."""
    sizes = tf.maximum(tf.shape(before), tf.shape(more))
    alike = [a is not None and a == b for a, b in zip(before.shape, more.shape, strict=True)]

    def grown(x):
        missing = tf.unstack(sizes - tf.shape(x))
        sides = [(0, 0 if same else n) for n, same in zip(missing, alike, strict=True)]
        return tf.pad(x, [(0, 0), *sides[1:]])

    return tf.concat([grown(before), grown(more)], axis=0)
