"""Vocabulary shortlists: the target tokens that a source's translation may need."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Self
from zipfile import BadZipFile

import keras
import numpy as np
import tensorflow as tf

from keras_mt.alignment.aligner import Aligner
from keras_mt.data.encoded import EncodedPairs
from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.layers.validation import check_positive
from keras_mt.options.search import check_language
from keras_mt.text import BaseTokenizer

_ARGUMENTS = "table", "always", "fingerprint", "languages"
_MAX_PAIRS = 200_000  # A table is learned from no more sentence pairs.
_CHUNK = 64  # Of `keras_mt.decoding.selection.top_k`.


class Vocabulary(NamedTuple):
    """The target tokens of one batch, each of which has an index; the special ones come first."""

    ids: tf.Tensor  # int32 `[count]`: at each index; 0 at the last ones, which no row is allowed.
    indices: tf.Tensor  # int32 `[target_vocab_size]`: of each id; 0 for one that is not there.
    allowed: tf.Tensor  # Boolean `[rows, count]`: what each row's probabilities are over.
    special: tuple[int, ...]  # The ids that come first.

    def index(self, ids: Any) -> Any:
        """The index of each id, in a tensor or as an int, which must be a special one."""
        if isinstance(ids, (int, np.integer)):
            return self.special.index(ids)
        return tf.gather(self.indices, ids)

    def id(self, indices: Any) -> Any:
        """The id at each index."""
        return tf.gather(self.ids, indices)


class Shortlist:
    """The target tokens that each source token may be translated to.

    With a shortlist a translator computes logits only for the tokens that the sources of a batch
    may need: those of the table's rows, and those that are always there. A translation holds tokens
    of its own source alone, and probabilities are over these, so scores are a little greater. It
    pays where the product with the vocabulary is a large part of a decoding step.

    Args:
        table: Integers `[source_vocab_size, count]`: target ids for each source id; -1 for none.
        always: Integers `[n]`: target ids for all sources.
        fingerprint: That of the tokenizer that the ids belong to; also an attribute.
        languages: The codes of the source's and the target's language, for a tokenizer with
            languages; else empty.

    Raises:
        ValueError: If the arrays are not integers of these ranks, or `always` has a negative id.

    Reference:
        Jean et al. 2015, On Using Very Large Target Vocabulary for Neural Machine Translation,
        section 3.3 (https://arxiv.org/abs/1412.2007).

    Example:

    >>> from keras_mt.data import load_corpus
    >>> from keras_mt.text import Tokenizer
    >>> pairs = load_corpus("phrasebook", "pt", "en", "train").take(500)
    >>> texts = [text for pair in pairs.as_numpy_iterator() for text in pair]
    >>> shortlist = Shortlist.learn(pairs, Tokenizer.train(texts, vocab_size=400), size=20)
    >>> shortlist.table.shape
    (400, 21)
    """

    def __init__(
        self, table: np.ndarray, always: np.ndarray, fingerprint: str, languages: Sequence[str] = ()
    ):
        self.table = _integers("table", table, rank=2)
        self.always = _integers("always", always, rank=1)
        if self.always.size and self.always.min() < 0:
            raise InputError("always must hold ids, at least 0. Received: a negative one")
        self.fingerprint = str(fingerprint)
        self.languages = tuple(map(str, languages))
        # The signatures of an export share variables.
        self.variables = [
            keras.Variable(values, trainable=False, dtype="int32", name=f"shortlist_{name}")
            for name, values in (("table", self.table), ("always", self.always))
        ]

    def __reduce__(self) -> tuple:
        return type(self), (self.table, self.always, self.fingerprint, self.languages)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file in NumPy's `.npz` format, whatever its name."""
        arrays = dict(zip(_ARGUMENTS, self.__reduce__()[1], strict=True))
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike) -> Self:
        """Reads what `save` wrote; ValueError if it is not such a file."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(**file)
        except FileNotFoundError:
            raise
        except (ValueError, TypeError, AttributeError, KeyError, OSError, EOFError, BadZipFile):
            raise InputError(
                f"{path} is not a shortlist that `keras-mt shortlist` wrote, or damaged: write it "
                "again."
            ) from None

    @classmethod
    def learn(
        cls,
        pairs: tf.data.Dataset,
        tokenizer: BaseTokenizer,
        size: int = 50,
        frequent: int = 200,
        languages: Sequence[str | None] = (),
    ) -> Self:
        """Learns a shortlist from sentence pairs, by word alignment.

        The probability of each target token given a source token is that of `Aligner`, after 5
        iterations. A source token that is also a target token may always be copied.

        Args:
            pairs: `tf.data.Dataset` of pairs of strings. Of a long one, its first 200,000 are used,
                or those of them that `Aligner.learn` draws.
            tokenizer: The model's tokenizer.
            size: Number of learned target tokens for each source token, the most probable ones.
            frequent: Number of the most frequent target tokens, which are always there.
            languages: For a tokenizer with languages, the codes of the source's and the target's;
                else empty, or Nones.

        Returns:
            A `Shortlist` whose table has `1 + size` columns; the first is the copy.

        Raises:
            ValueError: If a number is not a positive int, a language is unknown or missing, or
                there are no pairs.
        """
        check_positive(size=size, frequent=frequent)
        sides = "source_language", "target_language"
        for name, code in zip(sides, languages or (None, None), strict=True):
            check_language(name, code, tokenizer.languages)
        languages = languages if tokenizer.languages else ()
        encoded = EncodedPairs([pairs.take(_MAX_PAIRS)], tokenizer, languages=[languages])
        if not len(encoded):
            raise InputError("A shortlist is learned from sentence pairs. Received: none")
        sources, targets = (encoded.side(side, np.arange(len(encoded))) for side in (0, 1))
        aligner = Aligner.learn(sources, targets)
        table = np.full((tokenizer.source_vocab_size, 1 + size), -1, np.int32)
        table[:, 0] = _copies(tokenizer)
        _fill(table[:, 1:], *np.divmod(aligner.pairs, aligner.sizes[1]), aligner.forward)
        counts = np.bincount(np.concatenate(targets), minlength=tokenizer.target_vocab_size)
        always = np.argsort(-counts, kind="stable")[:frequent]
        return cls(table, always[counts[always] > 0], tokenizer.fingerprint, languages)

    def check_fits(
        self,
        tokenizer: BaseTokenizer,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> None:
        """Raises ValueError if the shortlist is of another tokenizer or other languages."""
        given = [code for code in (source_language, target_language) if code is not None]
        greatest = max(self.table.max(initial=0), self.always.max(initial=0))
        is_its_own = self.fingerprint == tokenizer.fingerprint
        is_its_own &= len(self.table) == tokenizer.source_vocab_size
        if not is_its_own or greatest >= tokenizer.target_vocab_size:
            raise InputError(
                "The shortlist was learned with another tokenizer: learn it anew with "
                "`keras-mt shortlist`."
            )
        if list(self.languages) != given:
            raise InputError(
                f"The shortlist was learned for {' to '.join(self.languages) or 'no languages'}, "
                f"and not for {' to '.join(given) or 'none'}: learn one with `keras-mt shortlist`."
            )

    def of_ids(self, source: Sequence[int], target: Sequence[int], fingerprint: str) -> Self:
        """The shortlist of a tokenizer that has these ids of the old one, in their new order."""
        new = np.full(1 + max(self.table.max(initial=0), self.always.max(initial=0), *target), -1)
        new[target] = np.arange(len(target))
        table = np.where(self.table < 0, -1, new[self.table])[source]
        always = new[self.always]
        return type(self)(table, always[always >= 0], fingerprint, self.languages)

    def vocabulary(
        self, source: tf.Tensor, special: Sequence[int], size: int, more: tf.Tensor | None = None
    ) -> Vocabulary:
        """The tokens, of `size`, that the translations of a batch `[rows, length]` may hold.

        The `special` ones come first, and count in every row's probabilities; `more`, int32
        `[rows, n]`, are further ids of each row, such as a prefix's. Padding adds nothing to a row
        if the table has nothing for the padding but itself, as a learned one.
        """
        rows = tf.shape(source)[0]
        table, always = (variable.value for variable in self.variables)
        # What each row may need, and what all of them may.
        own = tf.reshape(tf.gather(table, source), (rows, -1))
        own = own if more is None else tf.concat([own, more], axis=1)
        own = tf.where(own < 0, special[0], own)
        shared = tf.concat([special, always], axis=0)
        needed = _marked(tf.reshape(own, (-1,)), size) | _marked(shared, size)
        others = tf.where(needed & ~_marked(tf.constant(special), size))[:, 0]
        ids = tf.concat([special, tf.cast(others, tf.int32)], axis=0)
        indices = tf.scatter_nd(ids[:, None], tf.range(tf.size(ids)), (size,))
        # Of whole chunks: else each step would pad its logits to look for the best.
        ids = tf.pad(ids, ((0, -tf.size(ids) % _CHUNK),))
        count = tf.size(ids)
        places = tf.range(rows)[:, None] * count + tf.gather(indices, own)
        allowed = tf.reshape(_marked(tf.reshape(places, (-1,)), rows * count), (rows, count))
        allowed |= _marked(tf.gather(indices, shared), count)
        return Vocabulary(ids, indices, allowed, tuple(special))


def _integers(name, values, rank):
    values = np.asarray(values)
    if values.ndim != rank or not (values.dtype.kind in "iu" or values.size == 0):
        raise InputError(
            f"{name} must be integers of rank {rank}. "
            f"Received: {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.int32)


def _fill(table, source, target, probabilities):
    """Writes the most probable targets of each source into the table's rows."""
    order = np.lexsort((-probabilities, source))
    source, target = source[order], target[order]
    rank = np.arange(len(source)) - np.searchsorted(source, source)  # Among its source's targets.
    kept = rank < table.shape[1]
    table[source[kept], rank[kept]] = target[kept]


def _copies(tokenizer):
    """The id in the target of the piece of each source id, or -1."""
    targets = np.arange(tokenizer.target_vocab_size, dtype=np.int32)
    sources = np.arange(tokenizer.source_vocab_size, dtype=np.int32)
    pieces = tokenizer.id_to_string(tf.constant(targets)).numpy()
    by_piece = dict(zip(pieces[::-1], targets[::-1], strict=True))
    pieces = tokenizer.source_id_to_string(tf.constant(sources)).numpy()
    return np.array([by_piece.get(piece, -1) for piece in pieces], np.int32)


def _marked(places, size):
    """Boolean `[size]`: true for the numbers among the places `[n]`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(places), places, size) > 0
