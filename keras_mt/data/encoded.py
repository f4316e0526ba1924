"""Sentence pairs as token ids on disk."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_mt.data.augmentation import augmented
from keras_mt.data.corpus import without_autotune
from keras_mt.text import BaseTokenizer

_CHUNK = 1024  # Pairs tokenized by one call.


class EncodedPairs:
    """Sentence pairs, tokenized once into temporary files: memory has some 30 bytes per pair.

    `kinds` are those of `augmented`: a changed source of each is stored too. `languages` are the
    codes of both sides, for each dataset.

    Attributes:
        lengths: int32 `[pairs, 2 + kinds]`: the numbers of tokens of source, target and each
            changed source, special tokens included.
        blank: Boolean `[pairs, 2 + kinds]`: whether a side has nothing but special tokens.
        corpus: int16 `[pairs]`: the index of the dataset that each pair is from.
        keys: int64 `[pairs]`: a hash of each pair.
    """

    def __init__(
        self,
        datasets: Sequence[tf.data.Dataset],
        tokenizer: BaseTokenizer,
        directory: str | os.PathLike | None = None,
        languages: Sequence[Sequence[str]] = (),
        kinds: Sequence[str] = (),
        seed: int = 0,
    ):
        sides = 2 + len(kinds)
        vocab_size = max(tokenizer.source_vocab_size, tokenizer.target_vocab_size)
        dtype = np.uint16 if vocab_size <= 2**16 else np.int32
        columns = [(np.zeros((0, sides), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int16))]
        number = 0
        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(tempfile.TemporaryFile(dir=directory)) for _ in range(sides)
            ]
            for i, dataset in enumerate(datasets):
                codes = languages[i] if languages else ()
                for keys, ids, lengths in _chunks(dataset, tokenizer, codes, kinds, seed, number):
                    for file, side in zip(files, ids, strict=True):
                        file.write(side.astype(dtype).tobytes())
                    columns.append((lengths, keys, np.full(len(keys), i, np.int16)))
                    number += len(keys)
            self._ids = [_mapped(file, dtype) for file in files]
        self.lengths, self.keys, self.corpus = map(np.concatenate, zip(*columns, strict=True))
        source, target = tokenizer.special_counts()
        self.blank = self.lengths == np.array([source, target, *[source] * len(kinds)])
        self._starts = np.cumsum(self.lengths, axis=0, dtype=np.int64) - self.lengths
        self._count = len(datasets)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def fingerprints(self) -> list[dict]:
        """The number of `pairs` of each dataset, and the `sha256` of them in order."""
        return [
            {"pairs": len(keys), "sha256": hashlib.sha256(keys.astype("<i8").tobytes()).hexdigest()}
            for keys in (self.keys[self.corpus == i] for i in range(self._count))
        ]

    def side(self, side: int | np.ndarray, index: np.ndarray) -> list[np.ndarray]:
        """The ids of the pairs at `index`, on a side: 0 source, 1 target, from 2 changed sources.

        An array of sides has one for each pair.
        """
        side = np.broadcast_to(side, index.shape)
        starts, lengths = self._starts[index, side], self.lengths[index, side]
        return [
            self._ids[which][start : start + length].astype(np.int32)
            for which, start, length in zip(side, starts, lengths, strict=True)
        ]


class Links:
    """The word alignments, `[links, 2]` each, of the pairs at `index`, in a temporary file."""

    def __init__(
        self, index: np.ndarray, alignments: Iterable[np.ndarray], directory: Path | None = None
    ):
        self._index, counts = index, [0]
        with tempfile.TemporaryFile(dir=directory) as file:
            for links in alignments:
                file.write(np.asarray(links, np.uint16).tobytes())
                counts.append(len(links))
            self._links = _mapped(file, np.uint16).reshape(-1, 2)
        self._ends = np.cumsum(counts)
        self.linked = np.count_nonzero(counts)  # Number of pairs with links.

    def __getitem__(self, i: int) -> np.ndarray:
        place = np.searchsorted(self._index, i)
        return self._links[self._ends[place] : self._ends[place + 1]]


def _chunks(dataset, tokenizer, languages, kinds, seed, first):
    """Yields keys of pairs, the ids of each side, one pair's after another's, and their lengths.

    The sides are those of `EncodedPairs`; the first pair has the number `first`.
    """

    def encode(sources, targets):
        keys = tf.strings.to_hash_bucket_fast(
            tf.strings.join([sources, targets], "\n"), tf.int64.max
        )
        return sources, keys, tokenizer.pieces(sources), tokenizer.target_pieces(targets)

    encoded = dataset.batch(_CHUNK).map(encode, os.cpu_count()).prefetch(2)
    for sources, keys, pieces, target in without_autotune(encoded):
        with tf.device("CPU"):  # What is around the pieces takes longer to trace than to compute.
            codes = [tf.fill(keys.shape, code) for code in languages]
            sides = [tokenizer.source_ids(pieces, *codes), tokenizer.target_ids(target, *codes[1:])]
            for kind in kinds:
                changed = tf.constant(_augmented(sources.numpy(), kind, seed, first))
                sides.append(tokenizer.source_ids(tokenizer.pieces(changed), *codes))
            lengths = tf.stack([tf.cast(side.row_lengths(), tf.int32) for side in sides], axis=1)
        yield keys.numpy(), [side.flat_values.numpy() for side in sides], lengths.numpy()
        first += len(keys)


def _augmented(sources, kind, seed, first):
    """Applies a kind of change to byte strings; `first` is the index of the first one's pair."""
    texts = (source.decode("utf-8", "surrogateescape") for source in sources)
    changed = (augmented(text, kind, seed, i) for i, text in enumerate(texts, start=first))
    return [text.encode("utf-8", "surrogateescape") for text in changed]


def _mapped(file, dtype):
    file.flush()
    # An empty file cannot be mapped.
    return np.memmap(file, dtype, mode="r") if file.tell() else np.zeros(0, dtype)
