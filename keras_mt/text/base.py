"""What a translator asks of a tokenizer."""

import abc
import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf


class BaseTokenizer(abc.ABC):
    """A tokenizer that a `keras_mt.Translator` can translate, score and export with.

    What works on tensors is made of TensorFlow ops, as it becomes a part of the graph. Ids may
    coincide: the start may be the padding or the end, and the end may be 0. They are told apart by
    where they stand, and lengths are carried along.

    Attributes:
        padding_id: The id that fills up rows.
        bos_id: The id that a target begins with, before its first token.
        eos_id: The id that ends a target.
        forbidden_ids: Ids that a translation never holds: the padding and the start, unless that is
            the end too.
        source_vocab_size, target_vocab_size: Numbers of ids; both are `vocab_size` unless a
            tokenizer says otherwise.
        languages: The codes of the languages that a request may name, such as `eng_Latn`; empty
            where there is nothing to name. Where there are some, both sides are always named, and
            by these alone; whatever they are, as many special ids are added.
        description: What it is, in a few words, for the card of a model.

    Example:

    >>> class Letters(BaseTokenizer):  # Each byte is a token.
    ...     padding_id, bos_id, eos_id, vocab_size = 0, 1, 2, 256
    ...     def pieces(self, strings):
    ...         return tf.cast(tf.strings.bytes_split(strings).to_tensor(), tf.int32)
    ...     def text(self, ids):
    ...         return tf.strings.reduce_join(self.id_to_string(ids), axis=-1)
    ...     def id_to_string(self, ids):
    ...         return tf.gather([bytes([i]) for i in range(256)], ids)
    """

    padding_id: int = 0
    bos_id: int = 2
    eos_id: int = 3
    languages: Sequence[str] = ()

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        return tuple({self.padding_id, self.bos_id} - {self.eos_id})

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int: ...

    @property
    def source_vocab_size(self) -> int:
        return self.vocab_size

    @property
    def target_vocab_size(self) -> int:
        return self.vocab_size

    @property
    def description(self) -> str:
        return type(self).__name__

    @abc.abstractmethod
    def pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """Ids without special ones: what is counted against limits, and cut.

        Args:
            strings: String tensor `[batch]`, UTF-8.

        Returns:
            Ragged int32 `[batch, (tokens)]`.
        """

    def target_pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """The `pieces` of targets, where those of the two sides are not the same."""
        return self.pieces(strings)

    def marks(self, strings: tf.Tensor) -> tf.RaggedTensor | None:
        """The piece that a source begins with, if it holds for all of it, as `>>fra<<` does.

        Each segment of the source then begins with it.

        Args:
            strings: String tensor `[batch]`.

        Returns:
            Ragged int32 `[batch, (tokens)]`, at most one in a row; None where there are no such
            pieces.
        """
        return None

    def source_ids(
        self,
        pieces: tf.RaggedTensor,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
    ) -> tf.RaggedTensor:
        """What the model reads: here, the pieces and the end.

        Args:
            pieces: Ragged int32 `[batch, (tokens)]`, from `pieces`.
            source_language, target_language: Strings `[batch]`, codes of `languages`; None where
                there are none.

        Returns:
            Ragged int32 `[batch, (tokens)]`, as many more in each row.
        """
        return with_end(pieces, self.eos_id)

    def target_ids(
        self, pieces: tf.RaggedTensor, target_language: tf.Tensor | None = None
    ) -> tf.RaggedTensor:
        """What the model shall write after `bos_id`: what is forced, the pieces, and the end."""
        forced = self.forced_ids(target_language)
        ids = with_end(pieces, self.eos_id)
        if forced is None:
            return ids
        forced = tf.broadcast_to(tf.cast(forced, ids.dtype), (ids.nrows(), forced.shape[1]))
        return tf.concat([forced, ids], axis=1)

    def forced_ids(self, target_language: tf.Tensor | None = None) -> tf.Tensor | None:
        """What every translation begins with, int32 `[batch, forced]`, or None for nothing.

        One row where it is the same for all.

        It counts in a hypothesis's length and costs nothing.
        """
        return None

    @abc.abstractmethod
    def text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Text from ids, whose special ones are left out.

        Args:
            ids: Ragged int32 `[batch, (tokens)]`: what a translation holds, without padding.

        Returns:
            String tensor `[batch]`.
        """

    @property
    @abc.abstractmethod
    def begins_word(self) -> np.ndarray:
        """Boolean NumPy array `[source_vocab_size]`: the pieces that begin a word."""

    @abc.abstractmethod
    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces as strings, of the shape of the ids; `▁` stands for a space."""

    def source_id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """The `id_to_string` of sources, where the two sides have vocabularies of their own."""
        return self.id_to_string(ids)

    def sample(
        self,
        ids: Sequence[Sequence[int]],
        alpha: float,
        uniform: np.ndarray,
        max_length: int | None = None,
    ) -> list[list[int]]:
        """Other segmentations of texts, for `Batches(subword_sampling=...)`.

        See `Tokenizer.sample`.

        Raises:
            ValueError: If the tokenizer knows of one segmentation alone, as this one does.
        """
        raise ValueError(f"{type(self).__name__} knows only one segmentation of a text.")

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """The same string for tokenizers that do the same, and no others: a hash of the files."""

    @abc.abstractmethod
    def save(self, path: str | os.PathLike) -> None:
        """Writes the tokenizer's files into a folder that is there."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote."""


def with_end(ids: tf.RaggedTensor, eos_id: int) -> tf.RaggedTensor:
    """Ragged ids `[batch, (tokens)]` with the end after each row."""
    end = tf.fill((ids.nrows(), 1), eos_id)
    return tf.concat([ids, tf.cast(end, ids.dtype)], axis=1)
