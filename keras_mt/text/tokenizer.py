"""SentencePiece, trained on a corpus and run with tensorflow_text's ops."""

import bisect
import functools
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Self

import numpy as np
import sentencepiece
import tensorflow as tf
from tensorflow_text.python.ops import sentencepiece_tokenizer

from keras_mt.errors import InputError
from keras_mt.text.base_tokenizer import BaseTokenizer, rewritten, valid
from keras_mt.text.patterns import PIECES
from keras_mt.text.ragged import kept
from keras_mt.text.vocabulary import LANGUAGE, SentencePieceVocabulary

_CANDIDATES = 16  # Number of segmentations of a word to sample from.
_REMEMBERED = 50_000  # Number of words whose segmentations are cached.


class SentencePiece(sentencepiece_tokenizer.SentencepieceTokenizer):
    """tensorflow_text's, with a resource that is shared by name.

    Its own is deleted with TensorFlow's kernel cache, as `keras.utils.set_random_seed` does.
    """

    def __init__(self, model: bytes, out_type: tf.DType = tf.int32):
        super().__init__(model, out_type)
        self._model_resource = _NamedModel(model, None)


class _NamedModel(sentencepiece_tokenizer._SentencepieceModelResource):
    def _create_resource(self):
        return sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op(
            model=self._model, shared_name=f"keras_mt_{hashlib.sha256(self._model).hexdigest()}"
        )


class Tokenizer(SentencePieceVocabulary, SentencePiece, BaseTokenizer):
    """A SentencePiece tokenizer with byte fallback: no character is ever unknown.

    It is a `tensorflow_text.SentencepieceTokenizer`, so it runs eagerly, in `tf.data`, in a
    `tf.function` and in a SavedModel. Ids: 0 padding, 1 unknown, 2 start, 3 end.

    Text is normalized to NFKC. A run of white space, control characters, direction marks and bytes
    that are not UTF-8 becomes one space, or nothing at either end of the text. `▁`, which
    SentencePiece uses for a space, becomes `_` in the input. What looks like a special token, such
    as `</s>`, is treated as plain text.

    A tokenizer that is trained with `languages` has a token for each of them, after the end. It
    stands for the target's language, in front of the source; the source's language is not marked.

    Args:
        model: A serialized SentencePiece model, bytes; also an attribute. `Tokenizer.train` and
            `Tokenizer.load` make tokenizers from text and from a file.

    Attributes:
        languages: The codes of the languages, in the order of their tokens; empty for none.

    Example:

    >>> tokenizer = Tokenizer.train(["the book is on the table"] * 9, vocab_size=300)
    >>> tokenizer.detokenize(tokenizer.tokenize(["the table is on the book"])).numpy()[0]
    b'the table is on the book'

    Reference:
        Languages: Johnson et al. 2017, Google's Multilingual Neural Machine Translation System
        (https://arxiv.org/abs/1611.04558).
    """

    def __init__(self, model: bytes):
        SentencePiece.__init__(self, model)
        SentencePieceVocabulary.__init__(self, model)
        self._log_probs = np.array(self._processor.get_score([*range(self.vocab_size)]))
        self._units = {self.eos_id, *(id for _, id in self.language_ids)}  # That stay as they are.
        self._begins_unit = [b or i in self._units for i, b in enumerate(self._begins)]
        self._segmentations = functools.lru_cache(_REMEMBERED)(self._find_segmentations)

    @classmethod
    def train(
        cls,
        texts: Iterable[str | bytes],
        vocab_size: int,
        *,
        model_type: str = "unigram",
        seed: int = 1,
        sample: int = 1_000_000,
        languages: Sequence[str] = (),
    ) -> Self:
        """Trains a SentencePiece model.

        Args:
            texts: Iterable of str or bytes, read once; at most `sample` of them are held in memory.
            vocab_size: The maximum number of pieces; a small corpus may get fewer.
            model_type: `"unigram"` or `"bpe"`.
            seed: Seed of the sampling of texts; it has no effect on a corpus of at most `sample`
                texts.
            sample: The maximum number of texts to train on, drawn uniformly from all.
            languages: For a model of several languages, their codes: letters, digits and `_`.

        Returns:
            A `Tokenizer`.

        Raises:
            ValueError: If there is no text, it needs more pieces than `vocab_size`, `model_type` is
                unknown, or a language is given twice or is no code.

        Reference:
            Kudo and Richardson 2018, SentencePiece (https://arxiv.org/abs/1808.06226).
        """
        if model_type not in ("unigram", "bpe"):
            raise InputError(f"model_type must be 'unigram' or 'bpe'. Received: {model_type!r}")
        symbols = [f"<2{code}>" for code in languages]
        if len({*symbols}) < len(symbols) or not all(map(LANGUAGE.fullmatch, symbols)):
            raise InputError(
                "languages must be different codes of letters, digits and _. "
                f"Received: {list(languages)}"
            )
        model, kept = io.BytesIO(), Reservoir(sample, seed)
        for text in texts:
            kept.add(text)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(kept.texts),
                model_writer=model,
                vocab_size=vocab_size,
                model_type=model_type,
                hard_vocab_limit=False,
                # The rarest characters are spelled in bytes, or they would fill the vocabulary.
                character_coverage=0.9999,
                byte_fallback=True,
                pad_id=cls.padding_id,
                unk_id=cls.unknown_id,
                bos_id=cls.bos_id,
                eos_id=cls.eos_id,
                control_symbols=symbols,  # Which no text has, unlike user-defined symbols.
                num_threads=4,  # Fixed, since the pieces depend on it.
                minloglevel=3,
            )
        except (RuntimeError, OSError) as error:
            raise InputError(_explain(str(error), vocab_size, 260 + len(symbols))) from None
        return cls(model.getvalue())

    def tokenize(
        self, strings: str | Sequence[str] | tf.Tensor | tf.RaggedTensor
    ) -> tf.RaggedTensor | tf.Tensor:
        """Ids from text, without start and end.

        Args:
            strings: A string, a list of them, or a string tensor.

        Returns:
            Ragged int32 tensor `[batch, (tokens)]`; for one string int32 `[tokens]`.
        """
        if not isinstance(strings, tf.RaggedTensor):
            strings = tf.convert_to_tensor(strings, tf.string)  # An empty list would be floats.
        strings = tf.ragged.map_flat_values(valid, strings)
        return super().tokenize(tf.ragged.map_flat_values(rewritten, strings, *PIECES))

    def pieces(self, strings: tf.Tensor) -> tf.RaggedTensor:
        """See `tokenize`."""
        return self.tokenize(strings)

    def text(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """See `detokenize`."""
        return self.detokenize(ids)

    def sample(
        self,
        ids: Sequence[Sequence[int]],
        alpha: float,
        uniform: np.ndarray,
        max_length: int | None = None,
    ) -> list[list[int]]:
        """Samples other segmentations of tokenized texts: subword regularization.

        A segmentation is drawn with a probability proportional to `probability ** alpha`. Since no
        piece spans two words, each word is sampled by itself, among its 16 most probable
        segmentations.

        Args:
            ids: List of lists of int, the texts' ids; the end and a language's token stay in place.
            alpha: 1 samples with the unigram model's probabilities, 0 uniformly.
            uniform: Random numbers in [0, 1), `[texts, words]`, at least one for each word.
            max_length: A text of which more tokens are drawn keeps its segmentation.

        Raises:
            ValueError: If the model is not a unigram model, or there are too few random numbers.

        Reference:
            Kudo 2018, Subword Regularization, section 3 (https://arxiv.org/abs/1804.10959).
        """
        # The samples of SentencePiece's own sampler differ between processes, whatever the seed.
        sampled = []
        for text, numbers in zip(ids, uniform, strict=True):
            starts = [i for i, piece in enumerate(text) if i and self._begins_unit[piece]]
            drawn, words = [], [*zip([0, *starts], [*starts, len(text)], strict=True)]
            for (first, end), number in zip(words, numbers[: len(words)], strict=True):
                segmentations, summed = self._segmentations(tuple(text[first:end]), alpha)
                drawn += segmentations[bisect.bisect_right(summed, number)]
            sampled.append(text if max_length is not None and len(drawn) > max_length else drawn)
        return sampled

    def _find_segmentations(self, word, alpha):
        """The segmentations of a word, and their cumulative probabilities but for the last, 1."""
        if len(word) == 1 and word[0] in self._units:
            return [list(word)], []
        try:
            text = self._processor.decode(list(word))
            segmentations = self._processor.nbest_encode(text, nbest_size=_CANDIDATES)
        except RuntimeError:
            raise InputError(
                "Only a unigram model can sample segmentations: train the tokenizer with "
                "model_type='unigram', or leave subword_sampling out."
            ) from None
        segmentations = segmentations or [list(word)]
        log_probs = np.array([self._log_probs[row].sum() for row in segmentations])
        summed = np.cumsum(np.exp(alpha * (log_probs - log_probs.max())))
        return segmentations, (summed / summed[-1]).tolist()[:-1]

    def detokenize(
        self, ids: tf.Tensor | tf.RaggedTensor | Sequence[int] | Sequence[Sequence[int]]
    ) -> tf.Tensor:
        """Text from ids.

        Args:
            ids: Integers `[batch, length]`: a tensor, dense or ragged, or a list of lists; or the
                ids of one text, `[length]`. Padding, start, end and languages are left out.

        Returns:
            String tensor `[batch]`, or `[]` for one text.

        Raises:
            ValueError: If the ids are not integers; or, outside of a `tf.function`, if one is not
                in the vocabulary.
        """
        ids = self._as_ids(ids)
        if ids.shape.rank not in (1, 2):
            raise InputError(f"ids must be [batch, length] or [length], not of shape {ids.shape}")
        if ids.shape.rank == 1:
            return self.detokenize(ids[tf.newaxis])[0]
        if not isinstance(ids, tf.RaggedTensor):
            ids = tf.RaggedTensor.from_tensor(ids)
        flat, special = ids.flat_values, (self.padding_id, self.bos_id, self.eos_id)
        return super().detokenize(kept(ids, tf.reduce_all(flat[:, None] != special, axis=1)))

    def id_to_string(self, ids: tf.Tensor | tf.RaggedTensor | Sequence[int]) -> tf.Tensor:
        """The pieces of ids as strings, in their shape; see `detokenize` for what is refused."""
        return super().id_to_string(self._as_ids(ids))

    def _as_ids(self, ids):
        """An int32 tensor, dense or ragged; SentencePiece crashes on ids that it does not know."""
        if isinstance(ids, (list, tuple)):
            ids = tf.ragged.constant(ids) if ids else tf.zeros((0, 0), tf.int32)
            if tf.size(ids) == 0:  # Without a value it has no type.
                ids = tf.cast(ids, tf.int32)
        elif not isinstance(ids, tf.RaggedTensor):
            ids = tf.convert_to_tensor(ids)
        if not ids.dtype.is_integer:
            raise InputError(f"ids must be integers. Received: {ids.dtype.name}")
        if tf.executing_eagerly():
            values = getattr(ids, "flat_values", ids).numpy().ravel()
            if len(wrong := values[(values < 0) | (values >= self.vocab_size)]):
                raise InputError(
                    f"ids must be at least 0 and below {self.vocab_size}. Received: {wrong[0]}"
                )
        return tf.cast(ids, tf.int32)


class Reservoir:
    """At most `size` of the texts that are added, drawn uniformly.

    SentencePiece has a sampler too, but it takes no seed.
    """

    def __init__(self, size: int, seed: int):
        self.texts: list[str | bytes] = []
        self._size, self._random, self._count = size, Random(seed), 0

    def add(self, text: str | bytes) -> None:
        self._count += 1
        if self._count <= self._size:
            self.texts.append(text)
        elif (place := self._random.randrange(self._count)) < self._size:
            self.texts[place] = text


def _explain(error, vocab_size, fewest):
    """A message for the user from SentencePiece's message."""
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", error):
        return (
            f"vocab_size={vocab_size} is too small for this corpus, whose characters need "
            f"{needed[1]} pieces: give at least that."
        )
    if "vocab_size" in error or "Vocabulary size" in error:
        return (
            f"vocab_size={vocab_size} is too small: bytes and control tokens alone need {fewest}."
        )
    if "sentences_.empty" in error or "all_chars_count" in error:
        return "There is no text to train the tokenizer on (of at most 4,192 bytes each)."
    return f"SentencePiece could not be trained: {error}"
