"""Batches of pairs of similar length under a token budget."""

import atexit
import copy
import dataclasses
import functools
import itertools
import os
import threading
import time
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_mt.data.annotation import Annotator
from keras_mt.data.augmentation import CYCLE, phase
from keras_mt.data.corpus import without_autotune
from keras_mt.data.encoded import EncodedPairs, Links
from keras_mt.errors import InputError
from keras_mt.options.fields import as_kinds
from keras_mt.options.search import check_language
from keras_mt.options.training import AUGMENTATIONS
from keras_mt.text import BaseTokenizer

_WIDTH = 2  # Batch widths are multiples of this, so that there are fewer shapes.
_PREFETCHED = 8  # Batches.
_IDS = tf.TensorSpec((None, None), tf.int32)

# The index of the part of each batch, or a list of several, and the number of parts.
Shard = tuple[int | Sequence[int], int]

_producer_lock, _shutting_down = threading.Lock(), threading.Event()


@atexit.register
def _end():
    """Stops the pipelines: a thread that still runs Python code at interpreter exit would hang."""
    _shutting_down.set()
    with _producer_lock:
        pass
    time.sleep(0.1)  # For pipelines that ask for one more batch.


@dataclasses.dataclass(frozen=True)
class CorpusCounts:
    """What an epoch of `Batches` holds, and what was left out of it."""

    pairs: int
    too_long: int  # Left out, because a side has more than `max_length` tokens.
    blank: int  # Left out, because a side has no token.
    batches: int
    source_tokens: int  # With the ends, without padding.
    target_tokens: int
    padding: float  # Its share of the batches.
    max_length: int

    def __str__(self) -> str:
        return (
            f"{self.pairs:,} pairs; left out: {self.too_long:,} longer than {self.max_length} "
            f"tokens, {self.blank:,} blank; {self.batches:,} batches an epoch, {self.padding:.1%} "
            "of them padding"
        )


class Batches:
    """Makes batches for `model.fit` from sentence pairs.

    Each batch is `({"source": int32 [rows, source_length], "target": int32 [rows, target_length]},
    labels int32 [rows, target_length])`: `source` is the source with its end, `labels` the target
    with its end, and `target` the labels shifted right behind the start (teacher forcing). All are
    padded with the tokenizer's `padding_id`. The pairs of a batch are in the same bucket, by the
    length of their longer side, and have similar source lengths; the bucket's length times the
    number of rows is at most `tokens_per_batch`.

    The pairs are tokenized once, into temporary files, and all of them are shuffled in each epoch.
    What a step sees depends only on the seed and the step, so `stream` can begin at any step.

    Args:
        pairs: `tf.data.Dataset` of pairs of strings, as `load_corpus` returns, or a list of such,
            one for each corpus.
        tokenizer: A `Tokenizer`, or another `BaseTokenizer`.
        tokens_per_batch: The maximum number of tokens of a batch on each side, padding included.
        max_length: The maximum number of tokens of a side, with its end; pairs with more are left
            out and counted in `counts`.
        seed: Seed of the order, which differs in each epoch; None for the same order, not shuffled,
            in every epoch.
        subword_sampling: The `alpha` of `Tokenizer.sample`, to sample new segmentations of each
            pair in each epoch, or None for the most probable one. The choice of the pairs of a
            batch does not depend on it, so that a batch may exceed `tokens_per_batch`.
        weights: How many times an epoch goes through each corpus, a list of integers; None for
            once.
        temperature: The temperature T of the sampling of corpora, at least 1: a pair of an epoch is
            from a corpus of D pairs with a probability proportional to `D ** (1 / T)`. An epoch
            goes once through the largest corpus, and `times` through the others; for the rest of a
            number with a fraction it takes other pairs than the epochs before and after.
        directory: Folder for the temporary files, which have no name; None for the system's
            temporary folder.
        source_language, target_language: For a tokenizer with `languages`, the codes of the pairs'
            languages: one for all corpora, or a list with one for each.
        augment: Kinds of changes that make sources resemble what users type, such as
            `"caps,title,punctuation"`, or None. Each kind changes a tenth of the sources in an
            epoch, other ones in the next; targets stay as they are, and so does a source that would
            become longer than `max_length`.

    Raises:
        ValueError: If `max_length` is below 2 or above `tokens_per_batch`, or another argument is
            invalid.

    Reference:
        Temperature: Arivazhagan et al. 2019, Massively Multilingual Neural Machine Translation in
        the Wild, section 4.2 (https://arxiv.org/abs/1907.05019).

    Example:

    >>> pairs = tf.data.Dataset.from_tensors(("O livro.", "The book."))
    >>> batches = Batches(pairs, tokenizer, tokens_per_batch=512)  # doctest: +SKIP
    >>> model.fit(batches.epoch(0))  # doctest: +SKIP
    """

    def __init__(
        self,
        pairs: tf.data.Dataset | Sequence[tf.data.Dataset],
        tokenizer: BaseTokenizer,
        tokens_per_batch: int = 4096,
        max_length: int = 256,
        seed: int | None = None,
        subword_sampling: float | None = None,
        weights: Sequence[int] | None = None,
        directory: str | os.PathLike | None = None,
        source_language: str | Sequence[str] | None = None,
        target_language: str | Sequence[str] | None = None,
        augment: str | None = None,
        temperature: float = 1.0,
    ):
        if not 2 <= max_length <= tokens_per_batch:
            raise InputError(f"{max_length=} must be from 2 to {tokens_per_batch=}.")
        if subword_sampling is not None:  # What cannot be is refused now, not in `fit`.
            if not subword_sampling >= 0:
                raise InputError(f"subword_sampling must be at least 0, not {subword_sampling}.")
            ids = tokenizer.pieces(tf.constant(["a"])).to_list()
            tokenizer.sample(ids, subword_sampling, np.zeros((1, 9)))
        self.pairs = list(pairs) if isinstance(pairs, (list, tuple)) else [pairs]
        count = len(self.pairs)
        sources = _codes("source_language", source_language, count, tokenizer)
        targets = _codes("target_language", target_language, count, tokenizer)
        self.languages = list(zip(sources, targets, strict=True)) if tokenizer.languages else []
        self.weights = [1] * count if weights is None else list(weights)
        valid = all(weight == int(weight) >= 1 for weight in self.weights)
        if len(self.weights) != count or not valid:
            raise InputError(
                f"{weights=} must be positive integers, one for each of {count} corpora."
            )
        if not temperature >= 1:
            raise InputError(f"temperature must be at least 1, not {temperature}.")
        self.tokenizer, self.directory = tokenizer, directory
        self.tokens_per_batch, self.max_length = tokens_per_batch, max_length
        self.seed, self.temperature = seed, temperature
        self.subword_sampling = subword_sampling
        self.kinds = () if augment is None else as_kinds("augment", augment, AUGMENTATIONS)
        self._links, self._guided, self._annotator = None, False, None

    @functools.cached_property
    def counts(self) -> CorpusCounts:
        """The `CorpusCounts` of the first epoch. The first use tokenizes the corpus."""
        # The same number of batches in each epoch, whatever pairs and changed sources it has.
        epochs = range(CYCLE if self.kinds or (self._tenths % CYCLE).any() else 1)
        cuts = (self._cut(self._lengths(self._index(epoch), epoch))[1] for epoch in epochs)
        batches = max(map(len, cuts)) + 1 if len(self.kept) else 0
        index = self._index(0)
        lengths = self._lengths(index, 0)
        order, cuts = self._cut(lengths, batches)
        edges = np.array([0, *cuts, len(index)] if len(index) else [0])
        rows = np.diff(edges)
        widths = self._round_up(np.maximum.reduceat(lengths[order], edges[:-1]))
        places = (rows[:, None] * widths).sum()
        source_tokens, target_tokens = lengths.sum(axis=0, dtype=np.int64).tolist()
        blank = int(self.encoded.blank[:, :2].any(axis=1).sum())
        return CorpusCounts(
            pairs=len(index),
            too_long=len(self.encoded) - blank - len(self.kept),
            blank=blank,
            batches=len(rows),
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            padding=float(1 - (source_tokens + target_tokens) / max(places, 1)),
            max_length=self.max_length,
        )

    @property
    def times(self) -> list[float]:
        """The number of times that an epoch goes through each corpus, a list of floats.

        A number is rounded to tenths: for 2.3, three of ten epochs hold a pair three times.
        """
        return [tenths / CYCLE for tenths in self._tenths.tolist()]

    def epoch(self, number: int, shard: Shard = (0, 1)) -> tf.data.Dataset:
        """The batches of one epoch, a `tf.data.Dataset` of `counts.batches` elements.

        Args:
            number: The epoch, from 0.
            shard: `(i, n)`: of each batch, the rows i, i + n, i + 2n, ..., with rows of padding
                added so that all shards have as many. With a list of several i, each batch becomes
                several elements, one for each i.
        """
        size = self.counts.batches
        dataset = self._dataset(number * size, (number + 1) * size, shard)
        parts = len(np.atleast_1d(shard[0]))
        return dataset.apply(tf.data.experimental.assert_cardinality(size * parts))

    def stream(self, start_step: int = 0, shard: Shard = (0, 1)) -> tf.data.Dataset:
        """The batches of all epochs, from a given step on, as an endless `tf.data.Dataset`.

        Args:
            start_step: The step to begin at, from 0; each epoch has `counts.batches` steps.
            shard: As in `epoch`.

        Raises:
            ValueError: If there are no pairs to batch.
        """
        if not self.counts.batches:
            raise InputError(f"There is nothing to batch: {self.counts}.")
        return self._dataset(start_step, None, shard)

    def with_links(
        self, links: Links, guided: bool = True, annotator: Annotator | None = None
    ) -> "Batches":
        """The same batches, with the word alignments of all `kept` pairs.

        If they are `guided`, their inputs have `"alignment"` too, boolean `[rows, target_length,
        source_length]`: true where a label is linked to a source token. A changed source (of
        `augment`) has no links. An `annotator` writes terms into sources; `tokens_per_batch` does
        not count these.
        """
        other = copy.copy(self)
        other._links, other._guided, other._annotator = links, guided, annotator
        return other

    @functools.cached_property
    def encoded(self) -> EncodedPairs:
        """All pairs as ids, those that are left out too."""
        changes = self.kinds, self.seed or 0
        return EncodedPairs(self.pairs, self.tokenizer, self.directory, self.languages, *changes)

    @functools.cached_property
    def kept(self) -> np.ndarray:
        """The indices of the encoded pairs that are trained on."""
        lengths, blank = self.encoded.lengths[:, :2], self.encoded.blank[:, :2]
        return np.flatnonzero(~blank.any(axis=1) & (lengths.max(axis=1) <= self.max_length))

    @functools.cached_property
    def _tenths(self):
        """The number of times that ten epochs go through each corpus."""
        corpus = self.encoded.corpus[self.kept]
        sizes = np.maximum(np.bincount(corpus, minlength=len(self.weights)), 1)
        times = self.weights * (sizes.max() / sizes) ** (1 - 1 / self.temperature)
        return np.rint(CYCLE * times).astype(int)

    def _index(self, epoch):
        """The indices of an epoch's pairs, unordered."""
        tenths = self._tenths[self.encoded.corpus[self.kept]]
        # So that in any ten epochs each pair has its tenths.
        place = (np.arange(len(self.kept)) + (0 if self.seed is None else epoch)) % CYCLE
        return np.repeat(self.kept, tenths // CYCLE + (place < tenths % CYCLE)).astype(np.int32)

    @functools.cached_property
    def _phases(self):
        return np.array([phase(self.seed or 0, i) for i in range(len(self.encoded))], np.int8)

    def _sources(self, index, epoch):
        """The side of the encoded pairs to use as source: 0, or that of a changed source."""
        if not self.kinds:
            return np.zeros_like(index)
        sides = np.zeros(CYCLE, int)
        for side, kind in enumerate(self.kinds, start=2):
            sides[AUGMENTATIONS.index(kind)] = side
        chosen = sides[(self._phases[index] + (0 if self.seed is None else epoch)) % CYCLE]
        usable = self.encoded.lengths[index, chosen] <= self.max_length
        return np.where(usable & ~self.encoded.blank[index, chosen], chosen, 0)

    def _lengths(self, index, epoch):
        """The lengths of both sides of pairs in an epoch, `[pairs, 2]`."""
        sides = np.stack([self._sources(index, epoch), np.ones_like(index)], axis=1)
        return self.encoded.lengths[index[:, None], sides]

    def _cut(self, lengths, batches=0):
        """The order of the pairs in batches, and where to cut it: by lengths only.

        The largest batches are halved until there are at least `batches`.
        """
        buckets = np.array(_bucket_lengths(self.max_length))
        bucket = np.searchsorted(buckets, lengths.max(axis=1)).astype(np.int16)
        order = np.lexsort((lengths[:, 0], bucket))
        sizes = np.bincount(bucket, minlength=len(buckets))
        ends = np.cumsum(sizes)
        cuts = [
            np.arange(end - size, end, self.tokens_per_batch // length)
            for end, size, length in zip(ends, sizes, buckets, strict=True)
        ]
        cuts = np.concatenate(cuts)[1:]
        while len(cuts) + 1 < batches:
            edges = np.array([0, *cuts, len(lengths)])
            largest = np.diff(edges).argmax()
            cuts = np.insert(cuts, largest, edges[largest : largest + 2].sum() // 2)
        return order, cuts

    def _plan(self, epoch):
        """The indices of each batch's pairs, a list of arrays."""
        index = self._index(epoch)
        random = None if self.seed is None else np.random.default_rng([self.seed, epoch])
        if random is not None:
            index = random.permutation(index)
        order, cuts = self._cut(self._lengths(index, epoch), self.counts.batches)
        batches = np.split(index[order], cuts)
        if random is not None:
            random.shuffle(batches)
        return batches

    def _dataset(self, start, stop, shard):
        shards, count = np.atleast_1d(shard[0]), shard[1]

        def generate():
            epoch = None
            for step in itertools.count(start) if stop is None else range(start, stop):
                with _producer_lock:
                    if _shutting_down.is_set():
                        return
                    now, place = divmod(step, self.counts.batches)
                    if now != epoch:
                        epoch, plan = now, self._plan(now)
                    parts = [self._batch(plan[place], epoch, place, i, count) for i in shards]
                yield from parts

        inputs = {"source": _IDS, "target": _IDS}
        if self._guided:
            inputs["alignment"] = tf.TensorSpec((None, None, None), tf.bool)
        batches = tf.data.Dataset.from_generator(generate, output_signature=(inputs, _IDS))
        return without_autotune(batches.prefetch(_PREFETCHED))

    def _batch(self, index, epoch, place, shard, count):
        rows = -(-len(index) // count)
        part = index[shard::count]
        which = self._sources(part, epoch)
        sides = [self.encoded.side(side, part) for side in (which, 1)]
        if self.subword_sampling is not None:
            # Drawn for all shards alike, so that a pair's do not depend on the number of shards.
            longest = self.encoded.lengths[index].max()
            random = np.random.default_rng((self.seed or 0, epoch, place))
            uniform = random.random((2, len(index), longest))[:, shard::count]
            sides = [self._sampled(*side) for side in zip(sides, uniform, strict=True)]
        links = []
        if self._links is not None:
            none = np.zeros((0, 2), np.int32)
            links = [none if x else self._links[i] for i, x in zip(part, which, strict=True)]
        if self._annotator is not None:
            sides[0], sides[1], links = self._annotated(*sides, links, epoch, part)
        source, labels = (self._padded(side, rows) for side in sides)
        padding, target = self.tokenizer.padding_id, np.roll(labels, 1, axis=1)
        target[:, 0] = self.tokenizer.bos_id
        inputs = {"source": source, "target": np.where(labels == padding, padding, target)}
        if self._guided:
            inputs["alignment"] = linked = np.zeros((*labels.shape, source.shape[1]), bool)
            for row, pairs in enumerate(links):
                at, position = pairs.T
                linked[row, position, at] = True
        return inputs, labels

    def _annotated(self, sources, targets, links, epoch, index):
        """Sources, targets and links with terms, where these leave both within `max_length`."""
        rows = []
        for plain in zip(sources, targets, links, index.tolist(), strict=True):
            row = self._annotator(*plain[:3], epoch, plain[3])
            longest = max(len(row[0]), len(row[1]))
            rows.append(row if longest <= self.max_length else plain[:3])
        return map(list, zip(*rows, strict=True)) if rows else ([], [], [])

    def _sampled(self, ids, uniform):
        texts = [row.tolist() for row in ids]
        return self.tokenizer.sample(texts, self.subword_sampling, uniform, self.max_length)

    def _padded(self, rows, count):
        """Lists of ids as int32 `[count, width]`, padded, with rows of padding up to `count`."""
        width = self._round_up(max(map(len, rows), default=1))
        rows = [*rows, *[[]] * (count - len(rows))]
        padding = self.tokenizer.padding_id
        return keras.utils.pad_sequences(rows, width, padding="post", value=padding)

    def _round_up(self, widths):
        return np.minimum(-(-widths // _WIDTH) * _WIDTH, self.max_length)


def _codes(name, codes, count, tokenizer):
    """A language's code for each corpus, from one for all or a list of them."""
    each = list(codes) if isinstance(codes, (list, tuple)) else [codes] * count
    if len(each) != count:
        raise InputError(
            f"{name} must be a code, or a list with one for each of {count} corpora, not {codes}."
        )
    for code in each:
        check_language(name, code, tokenizer.languages)
    return each


def _bucket_lengths(max_length):
    """8, 12, 16, ... 32, 40, ... 64, 80, ... up to `max_length`."""
    lengths, step = [8], 4
    while lengths[-1] < max_length:
        if lengths[-1] >= 8 * step:
            step *= 2
        lengths.append(lengths[-1] + step)
    return [*(length for length in lengths if length < max_length), max_length]
