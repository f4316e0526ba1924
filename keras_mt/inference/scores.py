"""What is computed of given targets: the log-probabilities of their tokens, and their attention."""

import tensorflow as tf

from keras_mt.inference.predictors import Predictor
from keras_mt.inference.search import Rows

# The maximum number of logits held at once, but at least those of one row.
_BATCH_LOGITS = 2**26


def token_log_probs(predictor: Predictor, source: Rows, target: Rows, bos_id: int) -> tf.Tensor:
    """Log-probabilities of the target's tokens `[rows, length]`; 0 for padding.

    The rows are scored a few at a time, since the logits over a vocabulary take much memory.
    """
    rows, length = tf.unstack(tf.shape(target.ids))
    logits = tf.maximum(length, 1) * predictor.target_vocab_size
    size = tf.maximum(_BATCH_LOGITS // logits, 1)

    def score(start, log_probs):
        batch = slice(start, start + size)
        tokens = target.ids[batch]
        more = predictor.score(source.ids[batch], _shifted(tokens, bos_id), tokens)
        return start + size, tf.concat([log_probs, more], axis=0)

    _, log_probs = tf.while_loop(
        lambda start, log_probs: start < rows,
        score,
        (0, tf.zeros((0, length))),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
        parallel_iterations=1,
    )
    return tf.where(tf.sequence_mask(target.lengths, length), log_probs, 0.0)


def token_attention(predictor: Predictor, source: Rows, target: Rows, bos_id: int) -> tf.Tensor:
    """The attention of each target token over the source `[rows, length, source_length]`."""
    return predictor.attention(source.ids, _shifted(target.ids, bos_id))


def _shifted(target, bos_id):
    # [rows, length]: the start, then all tokens but the last.
    start = tf.fill((tf.shape(target)[0], 1), bos_id)
    return tf.concat([start, target], axis=1)[:, :-1]
