"""Batches of like length under a token budget."""

import dataclasses
import functools
import itertools

import numpy as np
import tensorflow as tf

from keras_mt.data.tokenizer import Tokenizer

_CHUNK = 1024  # Pairs tokenized by one call.
_MIXED = 64  # Batches shuffled, so that an epoch's last ones do not come bucket by bucket.


@dataclasses.dataclass(frozen=True)
class CorpusCounts:
    """What an epoch of `Batches` holds, and what was left out of it.

    Attributes:
        pairs: Number of pairs trained on.
        too_long: Number of pairs left out because a side has more than `max_length` tokens.
        blank: Number of pairs left out because a side has no token.
        batches: Number of batches.
        source_tokens, target_tokens: Numbers of tokens, with the ends, without padding.
        max_length: The longest side allowed.
    """

    pairs: int
    too_long: int
    blank: int
    batches: int
    source_tokens: int
    target_tokens: int
    max_length: int

    def __str__(self):
        return (
            f"{self.pairs:,} pairs; left out: {self.too_long:,} longer than {self.max_length} "
            f"tokens, {self.blank:,} blank; {self.batches:,} batches an epoch"
        )


class Batches:
    """Batches for `model.fit` from sentence pairs.

    Each is `({"source": int32 [rows, length], "target": int32 [rows, length]}, labels int32
    [rows, length])`: the source with its end, the target after the start, the target with its end,
    padded with 0 to the length of its bucket. A bucket's batches have `tokens_per_batch // length`
    rows each; the last is filled up with rows of padding, which a masked loss does not see, so
    that there are only as many shapes as buckets.

    Args:
        pairs: `tf.data.Dataset` of pairs of strings, as `load_corpus` returns.
        tokenizer: A `Tokenizer`.
        tokens_per_batch: Tokens of a batch on each side, padding included.
        max_length: The most tokens of a side, with its end; pairs with more are left out and
            counted in `counts`.
        seed: Seed of the order, another in each epoch; None keeps the corpus's.
        shuffle_buffer: Number of pairs, drawn from at random.
        subword_sampling: The `alpha` of `Tokenizer.sample`, to draw other segmentations of each
            pair in each epoch, or None for the most probable one. A batch holds the pairs that it
            would hold without, so that it may grow wider than its bucket.

    Raises:
        ValueError: If a sentence of `max_length` would not fit into a batch.

    Example:

    >>> pairs = tf.data.Dataset.from_tensors(("O livro.", "The book."))
    >>> batches = Batches(pairs, tokenizer, tokens_per_batch=512)  # doctest: +SKIP
    >>> model.fit(batches.epoch(0))  # doctest: +SKIP
    """

    def __init__(
        self,
        pairs,
        tokenizer,
        tokens_per_batch=4096,
        max_length=256,
        seed=None,
        shuffle_buffer=200_000,
        subword_sampling=None,
    ):
        if subword_sampling is not None and subword_sampling < 0:
            raise ValueError(f"subword_sampling must be at least 0. Received: {subword_sampling}")
        if not 2 <= max_length <= tokens_per_batch:
            raise ValueError(
                "max_length must be at least 2 and at most tokens_per_batch. "
                f"Received: max_length={max_length}, tokens_per_batch={tokens_per_batch}"
            )
        self.pairs = pairs
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.seed = seed
        self.shuffle_buffer = shuffle_buffer
        self.subword_sampling = subword_sampling
        self.lengths = _bucket_lengths(max_length)
        self.rows = [tokens_per_batch // length for length in self.lengths]

    @functools.cached_property
    def counts(self):
        """`CorpusCounts` of an epoch, from one pass over the pairs."""
        totals = np.zeros(5, np.int64)
        buckets = np.zeros(len(self.lengths), np.int64)
        for source, target in self._token_counts():
            longest = np.maximum(source, target)
            blank = np.minimum(source, target) == 1  # The end alone.
            too_long = ~blank & (longest > self.max_length)
            kept = ~blank & ~too_long
            totals += [
                kept.sum(),
                too_long.sum(),
                blank.sum(),
                source[kept].sum(),
                target[kept].sum(),
            ]
            bucket = np.searchsorted(self.lengths, longest[kept])
            buckets += np.bincount(bucket, minlength=len(self.lengths))
        pairs, too_long, blank, source_tokens, target_tokens = totals.tolist()
        batches = int(np.sum(-(-buckets // self.rows)))
        return CorpusCounts(
            pairs, too_long, blank, batches, source_tokens, target_tokens, self.max_length
        )

    def epoch(self, number):
        """The batches of one epoch: `tf.data.Dataset` of `counts.batches` elements."""
        batches = self._epochs(tf.data.Dataset.range(number, number + 1))
        return batches.apply(tf.data.experimental.assert_cardinality(self.counts.batches))

    def stream(self, start_step=0):
        """The batches of all epochs without end, from a given step on."""
        if not self.counts.batches:
            raise ValueError(f"There is nothing to batch: {self.counts}.")
        epoch, offset = divmod(start_step, self.counts.batches)
        later = tf.data.Dataset.range(epoch + 1, tf.int64.max)
        return self.epoch(epoch).skip(offset).concatenate(self._epochs(later))

    def _epochs(self, numbers):
        return numbers.flat_map(self._epoch).prefetch(tf.data.AUTOTUNE)

    def _epoch(self, number):
        pairs = self.pairs
        if self.seed is not None:
            # Of this function's graph: the user's global seed shall not change the order.
            tf.random.set_seed(1)
            seed = self.seed * 1_000_003 + number
            pairs = pairs.shuffle(self.shuffle_buffer, seed=seed)
        lengths = tf.constant(self.lengths)
        rows = tf.constant(self.rows, tf.int64)

        def batch(index, window):
            return window.batch(rows[index]).map(functools.partial(cut, index))

        def cut(index, _, source, target):
            used = tf.reduce_any((source != 0) | (target != 0), axis=0)
            length = lengths[
                tf.searchsorted(lengths, [tf.math.count_nonzero(used, dtype=tf.int32)])[0]
            ]
            missing = tf.cast(rows[index], tf.int32) - tf.shape(source)[0]
            source, labels = (
                tf.pad(side[:, :length], ((0, missing), (0, 0))) for side in (source, target)
            )
            # The start stands before each sentence, and the last token of none goes in: it is the
            # end, or padding.
            start = tf.where(labels[:, :1] == Tokenizer.PADDING, 0, Tokenizer.START)
            shifted = tf.concat([start, labels[:, :-1]], axis=1)
            shifted = tf.where(labels == Tokenizer.PADDING, 0, shifted)
            return {"source": source, "target": shifted}, labels

        batches = (
            pairs.batch(_CHUNK)
            .enumerate()
            .map(functools.partial(self._tokenize, number), tf.data.AUTOTUNE)
            .unbatch()
            .group_by_window(
                lambda bucket, *_: bucket,
                batch,
                window_size_func=lambda index: rows[index],
            )
        )
        return batches if self.seed is None else batches.shuffle(_MIXED, seed=seed)

    def _tokenize(self, epoch, chunk, pairs):
        """Chunks of strings to buckets `[kept]` and ids with ends, `[kept, max_length]`, twice."""
        sides = [with_end(self.tokenizer.tokenize(side)) for side in pairs]
        longest = tf.maximum(*(side.row_lengths() for side in sides))
        shortest = tf.minimum(*(side.row_lengths() for side in sides))
        kept = (longest <= self.max_length) & (shortest > 1)
        # Here, for a whole chunk: pair by pair it would take most of the pipeline's time.
        bucket = tf.searchsorted(tf.constant(self.lengths, tf.int64), longest[kept])
        if self.subword_sampling is not None:
            seeds = [tf.stack([self.seed or 0, epoch, chunk, side]) for side in (0, 1)]
            texts = [tf.boolean_mask(side, kept) for side in pairs]
            sides = [with_end(self._sample(*side)) for side in zip(texts, seeds, strict=True)]
            kept = tf.ones_like(kept[kept])
        return tf.cast(bucket, tf.int64), *(
            tf.ragged.boolean_mask(side, kept).to_tensor(shape=(None, self.max_length))
            for side in sides
        )

    def _sample(self, texts, seed):
        """Ragged ids of segmentations of texts `[batch]`, drawn at random."""

        def sample(texts, seed):
            ids = self.tokenizer.sample(
                texts.tolist(), self.subword_sampling, seed.tolist(), self.max_length - 1
            )
            flat = np.fromiter(itertools.chain.from_iterable(ids), np.int32)
            return flat, np.array([len(row) for row in ids], np.int64)

        flat, lengths = tf.numpy_function(sample, (texts, seed), (tf.int32, tf.int64))
        flat.set_shape((None,))
        lengths.set_shape((None,))
        return tf.RaggedTensor.from_row_lengths(flat, lengths, validate=False)

    def _token_counts(self):
        """The numbers of tokens with the ends of all pairs, chunk by chunk."""

        def count(source, target):
            return tuple(
                self.tokenizer.tokenize(side).row_lengths() + 1 for side in (source, target)
            )

        return self.pairs.batch(_CHUNK).map(count, tf.data.AUTOTUNE).as_numpy_iterator()


def with_end(ids):
    """Ragged ids `[batch, (tokens)]` with the end after each row."""
    end = tf.fill((ids.nrows(), 1), Tokenizer.END)
    return tf.concat([ids, tf.cast(end, ids.dtype)], axis=1)


def _bucket_lengths(max_length):
    """8, 12, 16, ... 32, 40, ... 64, 80, ... up to `max_length`."""
    lengths, step = [8], 4
    while lengths[-1] < max_length:
        if lengths[-1] >= 8 * step:
            step *= 2
        lengths.append(lengths[-1] + step)
    return [*(length for length in lengths if length < max_length), max_length]
