"""The base class of tokenizers: what a translator needs of one."""

import abc
import os
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError


class BaseTokenizer(abc.ABC):
    """A tokenizer that a `keras_mt.Translator` can translate, score and export with.

    Methods on tensors must use TensorFlow ops only, since they become part of the graph. Special
    ids may coincide: the start may be the padding or the end, and the end may be 0. They are told
    apart by their position, and lengths are passed along.

    Attributes:
        padding_id: The id that pads rows.
        bos_id: The id that a target begins with, before its first token.
        eos_id: The id that ends a target.
        forbidden_ids: Ids that a translation never holds: by default the padding and the start,
            unless one of them is the end.
        source_vocab_size, target_vocab_size: Numbers of ids of the two sides; both are `vocab_size`
            by default.
        languages: The language codes that a request may name, such as `eng_Latn`; empty if there is
            no choice. Otherwise every request names one for each side, and the number of special
            ids must be the same for all languages.
        term_markers: Two ids that no text has, which a source may hold around the terms that its
            translation must have; None if there are none.
        description: A few words about the tokenizer, for the model card.

    Example:

    >>> class Characters(BaseTokenizer):  # Each character is a token; some methods are left out.
    ...     padding_id, bos_id, eos_id, vocab_size = 0, 1, 2, 0x110000
    ...     def pieces(self, strings):
    ...         return tf.strings.unicode_decode(strings, "UTF-8")
    ...     def text(self, ids):
    ...         return tf.strings.unicode_encode(tf.ragged.boolean_mask(ids, ids > 2), "UTF-8")
    ...     def id_to_string(self, ids):
    ...         return tf.strings.unicode_encode(ids[..., tf.newaxis], "UTF-8")
    """

    padding_id: int = 0
    bos_id: int = 2
    eos_id: int = 3
    languages: Sequence[str] = ()
    term_markers: tuple[int, int] | None = None

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
        """The ids of texts without special ids: these are counted against limits, and cut.

        Args:
            strings: String tensor `[batch]`, UTF-8.

        Returns:
            Ragged int32 `[batch, (tokens)]`.
        """

    def target_pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """The `pieces` of targets; override it if the two sides have different vocabularies."""
        return self.pieces(strings)

    def marks(self, strings: tf.Tensor) -> tf.RaggedTensor | None:
        """The mark that a source begins with and that applies to all of it, such as `>>fra<<`.

        Every segment of the source is then given the mark.

        Args:
            strings: String tensor `[batch]`.

        Returns:
            Ragged int32 `[batch, (tokens)]`, at most one in a row; None if the tokenizer has no
            marks.
        """
        return None

    def source_ids(
        self,
        pieces: tf.RaggedTensor,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
    ) -> tf.RaggedTensor:
        """The ids that the model reads: by default, the pieces and the end.

        Args:
            pieces: Ragged int32 `[batch, (tokens)]`, from `pieces`.
            source_language, target_language: Strings `[batch]`, codes of `languages`; None if there
                are none.

        Returns:
            Ragged int32 `[batch, (tokens)]`; every row gets the same number of special ids.
        """
        return with_end(pieces, self.eos_id)

    def target_ids(
        self, pieces: tf.RaggedTensor, target_language: tf.Tensor | None = None
    ) -> tf.RaggedTensor:
        """The ids that the model generates after `bos_id`: forced ids, the pieces, and the end."""
        forced = self.forced_ids(target_language)
        ids = with_end(pieces, self.eos_id)
        if forced is None:
            return ids
        forced = tf.broadcast_to(tf.cast(forced, ids.dtype), (ids.nrows(), forced.shape[1]))
        return tf.concat([forced, ids], axis=1)

    def forced_ids(self, target_language: tf.Tensor | None = None) -> tf.Tensor | None:
        """The ids that every translation begins with, int32 `[batch, forced]`, or None for none.

        One row if they are the same for all. They count in a hypothesis's length, at no cost in its
        log-probability.
        """
        return None

    @abc.abstractmethod
    def text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Text from ids; special ids are left out.

        Args:
            ids: Ragged int32 `[batch, (tokens)]`: the ids of translations, without padding.

        Returns:
            String tensor `[batch]`.
        """

    @property
    @abc.abstractmethod
    def begins_word(self) -> np.ndarray:
        """Boolean NumPy array `[source_vocab_size]`: the pieces that begin a word."""

    @abc.abstractmethod
    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces as strings, in the shape of the ids; `▁` stands for a space."""

    def source_id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """The `id_to_string` of sources; override it for separate vocabularies."""
        return self.id_to_string(ids)

    def sample(
        self,
        ids: Sequence[Sequence[int]],
        alpha: float,
        uniform: np.ndarray,
        max_length: int | None = None,
    ) -> list[list[int]]:
        """Samples other segmentations of texts, for `Batches(subword_sampling=...)`.

        See `Tokenizer.sample`.

        Raises:
            ValueError: If the tokenizer has only one segmentation of a text, as by default.
        """
        raise InputError(
            f"{type(self).__name__} knows only one segmentation of a text: leave subword_sampling "
            "out."
        )

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A hash of the files: equal for tokenizers that behave the same, and only for these."""

    @abc.abstractmethod
    def save(self, path: str | os.PathLike) -> None:
        """Writes the tokenizer's files into an existing folder."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote."""


class Codes:
    """Strings that each stand for one id."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self.codes = tuple(ids)
        self._ids = np.array([*ids.values(), 0], np.int32)

    def ids(self, strings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The ids `[batch]`, 0 for an unknown string, and which strings are known."""
        rest = tf.ones_like(strings[:, None], tf.bool)
        known = tf.concat([strings[:, None] == self.codes, rest], axis=1)
        place = tf.argmax(tf.cast(known, tf.int32), axis=1)  # The first, or else the last.
        return tf.gather(self._ids, place), place < len(self.codes)


def without_control_characters(strings: tf.Tensor, first: str = r"\x00") -> tf.Tensor:
    """Valid UTF-8: control characters but tab and line ends, and other bytes, become spaces.

    Those before the `first` stay.
    """
    strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", replacement_char=ord(" "))
    return tf.strings.regex_replace(
        strings, rf"[{first}-\x08\x0b\x0c\x0e-\x1f\x{{7f}}-\x{{9f}}]", " "
    )


def with_end(ids: tf.RaggedTensor, eos_id: int) -> tf.RaggedTensor:
    """Ragged ids `[batch, (tokens)]` with the end appended to each row."""
    end = tf.fill((ids.nrows(), 1), eos_id)
    return tf.concat([ids, tf.cast(end, ids.dtype)], axis=1)
