"""Sentence pairs as token ids on disk."""

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence

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
        ids = max(tokenizer.source_vocab_size, tokenizer.target_vocab_size)
        dtype = np.uint16 if ids <= 2**16 else np.int32
        lengths = [np.zeros((0, 2 + len(kinds)), np.int32)]
        keys, corpus = [np.zeros(0, np.int64)], [np.zeros(0, np.int16)]
        encoders = [
            [functools.partial(ids, tokenizer, codes) for ids in (_source_ids, _target_ids)]
            for codes in languages or [()] * len(datasets)
        ]

        def encode(source_ids, target_ids, source, target):
            ids = source_ids(source), target_ids(target)
            pairs = tf.strings.join([source, target], "\n")
            return (
                source if kinds else (),
                tf.strings.to_hash_bucket_fast(pairs, tf.int64.max),
                *(tf.cast(side.flat_values, dtype) for side in ids),
                tf.stack([side.row_lengths() for side in ids], axis=1),
            )

        with contextlib.ExitStack() as stack:
            files = [
                stack.enter_context(tempfile.TemporaryFile(dir=directory))
                for _ in range(2 + len(kinds))
            ]
            number = 0
            for i, (dataset, encoder) in enumerate(zip(datasets, encoders, strict=True)):
                encode_chunk = functools.partial(encode, *encoder)
                chunks = dataset.batch(_CHUNK).map(encode_chunk, os.cpu_count())
                encoded = without_autotune(chunks.prefetch(2))
                for sources, chunk_keys, *flat, plain in encoded.as_numpy_iterator():
                    changed = [
                        encoder[0](tf.constant(_augmented(sources, kind, seed, number)))
                        for kind in kinds
                    ]
                    flat += [ids.flat_values.numpy().astype(dtype) for ids in changed]
                    for file, side in zip(files, flat, strict=True):
                        file.write(side.tobytes())
                    columns = [plain, *(ids.row_lengths()[:, None] for ids in changed)]
                    lengths.append(np.concatenate(columns, axis=1, dtype=np.int32))
                    keys.append(chunk_keys)
                    corpus.append(np.full(len(chunk_keys), i, np.int16))
                    number += len(chunk_keys)
            self._ids = [_mapped(file, dtype) for file in files]
        self.lengths, self.keys, self.corpus = map(np.concatenate, (lengths, keys, corpus))
        # The same for all languages.
        nothing = [ids(tf.constant([""])).row_lengths()[0].numpy() for ids in encoders[0]]
        self.blank = self.lengths == np.array(nothing + nothing[:1] * len(kinds))
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
        return [
            self._ids[which][start : start + length].astype(np.int32)
            for which, start, length in zip(
                side, self._starts[index, side], self.lengths[index, side], strict=True
            )
        ]


class Links:
    """The word alignments of sentence pairs, `[links, 2]` each, in a temporary file."""

    def __init__(
        self, alignments: Iterable[np.ndarray], directory: str | os.PathLike | None = None
    ):
        counts = [0]
        with tempfile.TemporaryFile(dir=directory) as file:
            for links in alignments:
                file.write(np.asarray(links, np.uint16).tobytes())
                counts.append(len(links))
            self._links = _mapped(file, np.uint16).reshape(-1, 2)
        self._starts = np.cumsum(counts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self._links[self._starts[i] : self._starts[i + 1]]


def _source_ids(tokenizer, languages, texts):
    codes = [tf.fill(tf.shape(texts), code) for code in languages]
    return tokenizer.source_ids(tokenizer.pieces(texts), *codes)


def _target_ids(tokenizer, languages, texts):
    codes = [tf.fill(tf.shape(texts), code) for code in languages[1:]]
    return tokenizer.target_ids(tokenizer.target_pieces(texts), *codes)


def _augmented(sources, kind, seed, first):
    """Applies a kind of change to byte strings; `first` is the index of the first one's pair."""
    texts = (source.decode("utf-8", "surrogateescape") for source in sources)
    changed = (augmented(text, kind, seed, i) for i, text in enumerate(texts, start=first))
    return [text.encode("utf-8", "surrogateescape") for text in changed]


def _mapped(file, dtype):
    file.flush()
    # An empty file cannot be mapped.
    return np.memmap(file, dtype, mode="r") if file.tell() else np.zeros(0, dtype)
