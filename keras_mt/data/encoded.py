"""Sentence pairs as token ids on disk."""

import hashlib
import os
import tempfile
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_mt.data.corpus import untuned
from keras_mt.text import BaseTokenizer

_CHUNK = 1024  # Pairs tokenized by one call.


class EncodedPairs:
    """Sentence pairs, tokenized once into temporary files; any of them are at hand, in any order.

    Memory holds but some 30 bytes a pair, however long it is.

    Args:
        pairs: `tf.data.Dataset` of pairs of strings, or a list of them.
        tokenizer: A `Tokenizer`, or another `BaseTokenizer`.
        directory: Folder for the files, which have no name and go with the object; None for the
            system's temporary folder.
        languages: Of a tokenizer with languages, the codes of the source's and the target's.

    Attributes:
        lengths: int32 `[pairs, 2]`: the tokens of source and target, special ones too.
        blank: Boolean `[pairs]`: where a side has nothing but special tokens.
        corpus: `[pairs]`: which of the datasets each pair is from.
        keys: int64 `[pairs]`: the same number for the same pair.
    """

    def __init__(
        self,
        pairs: tf.data.Dataset | Sequence[tf.data.Dataset],
        tokenizer: BaseTokenizer,
        directory: str | os.PathLike | None = None,
        languages: Sequence[str] = (),
    ):
        datasets = pairs if isinstance(pairs, (list, tuple)) else [pairs]
        ids = max(tokenizer.source_vocab_size, tokenizer.target_vocab_size)
        dtype = np.uint16 if ids <= 2**16 else np.int32
        lengths, keys, sizes = [], [], []

        def ids_of(source, target):
            codes = [tf.fill(tf.shape(source), code) for code in languages]
            return [
                tokenizer.source_ids(tokenizer.pieces(source), *codes),
                tokenizer.target_ids(tokenizer.target_pieces(target), *codes[1:]),
            ]

        def encode(source, target):
            ids = ids_of(source, target)
            return (
                tf.strings.to_hash_bucket_fast(
                    tf.strings.join([source, target], "\n"), tf.int64.max
                ),
                tf.stack([side.row_lengths() for side in ids], axis=1),
                *(tf.cast(side.flat_values, dtype) for side in ids),
            )

        with (
            tempfile.TemporaryFile(dir=directory) as source,
            tempfile.TemporaryFile(dir=directory) as target,
        ):
            for dataset in datasets:
                size = 0
                encoded = untuned(dataset.batch(_CHUNK).map(encode, os.cpu_count()).prefetch(2))
                for (
                    chunk_keys,
                    chunk_lengths,
                    source_ids,
                    target_ids,
                ) in encoded.as_numpy_iterator():
                    keys.append(chunk_keys)
                    lengths.append(chunk_lengths.astype(np.int32))
                    size += len(chunk_keys)
                    source.write(source_ids.tobytes())
                    target.write(target_ids.tobytes())
                sizes.append(size)
            self._ids = [_mapped(file, dtype) for file in (source, target)]
        self.lengths = np.concatenate([np.zeros((0, 2), np.int32), *lengths])
        empty = tf.constant([""])
        nothing = [ids.row_lengths()[0].numpy() for ids in ids_of(empty, empty)]
        self.blank = (self.lengths == nothing).any(axis=1)
        self.keys = np.concatenate([np.zeros(0, np.int64), *keys])
        self._sizes = sizes
        self.corpus = np.repeat(np.arange(len(datasets), dtype=np.int16), sizes)
        self._starts = np.cumsum(self.lengths, axis=0, dtype=np.int64) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def fingerprints(self) -> list[dict]:
        """Of each dataset its number of `pairs`, and `sha256` of them all in their order."""
        return [
            {"pairs": len(keys), "sha256": hashlib.sha256(keys.astype("<i8").tobytes()).hexdigest()}
            for keys in np.split(self.keys, np.cumsum(self._sizes)[:-1])
        ]

    def side(self, side: int, index: np.ndarray) -> list[np.ndarray]:
        """The ids of one side of some pairs, a list of int32 arrays.

        Args:
            side: 0 for the source, 1 for the target.
            index: Indices of pairs.
        """
        return [
            self._ids[side][start : start + length].astype(np.int32)
            for start, length in zip(
                self._starts[index, side], self.lengths[index, side], strict=True
            )
        ]


def _mapped(file, dtype):
    file.flush()
    # An empty file cannot be mapped.
    return np.memmap(file, dtype, mode="r") if file.tell() else np.zeros(0, dtype)
