"""What is computed of given targets: the log-probabilities of their tokens, and their attention."""

import tensorflow as tf

from keras_mt.inference.predictors import Predictor
from keras_mt.inference.search import Rows

# The maximum number of logits held at once, but at least those of one row.
_BATCH_LOGITS = 2**26


def token_log_probs(
    predictor: Predictor, source: tf.Tensor, target: Rows, bos_id: int
) -> tf.Tensor:
    """Log-probabilities of the target's tokens `[rows, length]`; 0 for padding.

    The rows are scored a few at a time, since the logits over a vocabulary take much memory.
    """
    rows, length = tf.unstack(tf.shape(target.ids))
    logits = tf.maximum(length, 1) * predictor.target_vocab_size
    size = tf.maximum(_BATCH_LOGITS // logits, 1)

    def score(start, log_probs):
        batch = slice(start, start + size)
        tokens = target.ids[batch]
        more = predictor.score(source[batch], shifted(tokens, bos_id), tokens)
        return start + size, tf.concat([log_probs, more], axis=0)

    _, log_probs = tf.while_loop(
        # Recurrent layers take no sequence without a token.
        lambda start, log_probs: (start < rows) & (length > 0),
        score,
        (0, tf.zeros((0, length))),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
        parallel_iterations=1,
    )
    log_probs = tf.reshape(log_probs, (rows, length))
    return tf.where(tf.sequence_mask(target.lengths, length), log_probs, 0.0)


def shifted(target: tf.Tensor, bos_id: int) -> tf.Tensor:
    """The start and then all tokens but the last, `[rows, length]`: what predicts the targets."""
    start = tf.fill((tf.shape(target)[0], 1), bos_id)
    return tf.concat([start, target], axis=1)[:, :-1]


def attention_of_texts(
    attention: tf.Tensor,
    target: tf.RaggedTensor,
    source: tf.RaggedTensor,
    row: tf.Tensor,
    batch: tf.Tensor,
) -> tf.Tensor:
    """The attention of texts `[batch, target_tokens, source_tokens]`, from that of their segments.

    That is `[segments, target_length, source_length]`, `target` and `source` ragged ids, and `row`
    the text that each segment belongs to, in ascending order.
    """
    lengths = [tf.cast(side.row_lengths(), tf.int32) for side in (target, source)]
    totals = [tf.math.unsorted_segment_sum(length, row, batch) for length in lengths]
    starts = [  # Where each segment starts in its text.
        tf.cumsum(length, exclusive=True) - tf.gather(tf.cumsum(total, exclusive=True), row)
        for length, total in zip(lengths, totals, strict=True)
    ]
    shape = tf.shape(attention)
    real = (
        tf.sequence_mask(lengths[0], shape[1])[:, :, None]
        & tf.sequence_mask(lengths[1], shape[2])[:, None, :]
    )
    segment, *places = tf.unstack(tf.cast(tf.where(real), tf.int32), axis=1)
    indices = [tf.gather(start, segment) + x for start, x in zip(starts, places, strict=True)]
    longest = [tf.reduce_max(tf.concat([total, [0]], axis=0)) for total in totals]
    return tf.scatter_nd(
        tf.stack([tf.gather(row, segment), *indices], axis=1),
        tf.boolean_mask(attention, real),
        (batch, *longest),
    )
