"""The base class of tokenizers."""

import abc
import os
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.text.patterns import Rewrite
from keras_mt.text.vocabulary import Vocabulary


class BaseTokenizer(Vocabulary, abc.ABC):
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
        languages: The language codes that a request may name, such as `eng_Latn`: those of
            `language_ids`. If there are some, every request names one for each side.
        language_ids: Pairs of a language's code and its id, none by default. Each source has the id
            of its language, and each target is forced to begin with that of its own.
        language_first: Whether a source begins with the id of its language; if not, it ends with
            it, after the end.
        target_on_source: Whether the language on a source is that of its target, which then begins
            as any other: the source's own language does not matter.
        source_prefix: Ids that every source begins with, even before its language.
        source_eos_id: The id that ends a source; None for `eos_id`.
        forced: Ids that every target is forced to begin with, if there are no languages.
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

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int: ...

    @abc.abstractmethod
    def pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """The piece ids of texts `[batch]`, ragged int32 `[batch, (tokens)]`.

        They have no special ids, are counted against limits, and are cut.
        """

    def language_tags(self, strings: tf.Tensor) -> tf.RaggedTensor | None:
        """The ids of the tags, such as `>>fra<<`, that sources `[batch]` begin with.

        They are ragged, at most one in a row, and each segment of a source is given its tag. None
        if the tokenizer has no tags.
        """
        return None

    def source_ids(
        self,
        pieces: tf.RaggedTensor,
        source_language: tf.Tensor | None = None,
        target_language: tf.Tensor | None = None,
    ) -> tf.RaggedTensor:
        """The ids that the model reads: pieces and the end, with a prefix and a language if any.

        Languages are strings `[batch]`, codes of `languages`; None if there are none. Every row
        gets the same number of special ids.
        """
        code = target_language if self.target_on_source else source_language
        rows, (before, after) = pieces.nrows(), self.around_source(self._language_column(code))
        before, after = (
            [tf.broadcast_to(tf.cast(ids, pieces.dtype), (rows, 1)) for ids in side]
            for side in (before, after)
        )
        return tf.concat([*before, pieces, *after], axis=1)

    def _language_column(self, codes):
        """The ids of languages, int32 `[batch, 1]`: of one, if there are none but to count ids."""
        if not self.language_ids:
            return None
        # An unknown language is refused elsewhere, and must have an id all the same.
        codes = tf.convert_to_tensor(self.languages[:1] if codes is None else codes)
        return tf.maximum(ids_of(codes, self.language_ids), 0)[:, None]

    def target_ids(
        self, pieces: tf.RaggedTensor, target_language: tf.Tensor | None = None
    ) -> tf.RaggedTensor:
        """The ids that the model generates after `bos_id`: forced ids, the pieces, and the end."""
        rows, forced = pieces.nrows(), self.forced_ids(target_language)
        parts = [pieces, tf.fill((rows, 1), self.eos_id)]
        if forced is not None:
            parts.insert(0, tf.broadcast_to(forced, (rows, forced.shape[1])))
        return tf.concat([tf.cast(part, pieces.dtype) for part in parts], axis=1)

    def forced_ids(self, target_language: tf.Tensor | None = None) -> tf.Tensor | None:
        """The ids that every translation begins with, int32 `[batch, forced]`, or None for none.

        One row if they are the same for all. They count in a hypothesis's length, at no cost in its
        log-probability.
        """
        forced = self.before_target(self._language_column(target_language))
        columns = [tf.reshape(tf.cast(ids, tf.int32), (-1, 1)) for ids in forced]
        return tf.concat(columns, axis=1) if columns else None

    def special_counts(self) -> tuple[int, int]:
        """The numbers of special ids that `source_ids` and `target_ids` add, in any language."""
        nothing = self.pieces(tf.constant([""]))
        codes = [tf.constant([code]) for code in self.languages[:1]] * 2
        sides = self.source_ids(nothing, *codes), self.target_ids(nothing, *codes[1:])
        return tuple(int(ids.row_lengths()[0]) for ids in sides)

    @abc.abstractmethod
    def text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Texts `[batch]` from the ids of translations, ragged; special ids are left out."""

    @property
    @abc.abstractmethod
    def begins_word(self) -> np.ndarray:
        """Boolean NumPy array `[source_vocab_size]`: the pieces that begin a word."""

    @abc.abstractmethod
    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces as strings, in the shape of the ids; `▁` stands for a space."""

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
        """Writes the tokenizer's files into an existing folder; `Tokenizer` writes one file."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote."""


def ids_of(strings: tf.Tensor, ids: Sequence[tuple[str, int]]) -> tf.Tensor:
    """The ids `[batch]` of strings, by pairs of a string and its id; -1 for an unknown string."""
    known, values = zip(*ids, strict=True)
    return tf.reduce_max(tf.where(strings[:, None] == known, values, -1), axis=1)


def valid(strings: tf.Tensor) -> tf.Tensor:
    """Valid UTF-8: what is none becomes spaces."""
    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", replacement_char=ord(" "))


def rewritten(strings: tf.Tensor, *rewrites: Rewrite) -> tf.Tensor:
    """Strings with rewrites of `patterns`, one after another."""
    for pattern, rewrite in rewrites:
        strings = tf.strings.regex_replace(strings, pattern, rewrite)
    return strings
