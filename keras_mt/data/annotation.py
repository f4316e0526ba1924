"""Sources in which some words carry the target's words for them, as a glossary's terms do."""

import string
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.text import BaseTokenizer

# The maximum number of words of a term, and of terms of a source.
_MAX_WORDS, _MAX_TERMS = 3, 3
# Strings that a model has to copy as they are, some of them longer than words.
_COPIES = 4000


class Phrase(NamedTuple):
    """Words of both sides that are linked with one another alone, as slices of tokens."""

    source: slice
    target: slice

    def after_growth(self, place: slice, grown: int) -> "Phrase":
        """The phrase once the target has grown by so many tokens at a place."""
        if self.target.start < place.start:
            return self
        return self._replace(target=slice(self.target.start + grown, self.target.stop + grown))


class Annotator:
    """Writes the target's words for some words of a source behind these, between two markers.

    A model that is trained on such sources uses the words that it is given, at their place: those
    of its own target half of the time, else made-up ones, which then stand in the target too. Of
    the made-up ones half also replace the source's words, as what is to be copied does.

    Reference:
        Dinu et al. 2019, Training Neural Machine Translation to Apply Terminology Constraints
        (https://arxiv.org/abs/1906.01105), where terms are appended; Bergmanis and Pinnis 2021,
        Facilitating Terminology Translation with Target Lemma Annotations
        (https://arxiv.org/abs/2101.10035).
    """

    def __init__(self, tokenizer: BaseTokenizer, share: float, seed: int = 0):
        if tokenizer.term_markers is None:
            raise InputError(
                "terms need a tokenizer with markers for them, such as keras_mt.Tokenizer with "
                f"byte fallback. {type(tokenizer).__name__} has none."
            )
        self._markers, self._share, self._seed = tokenizer.term_markers, share, seed
        self._begins_word = tokenizer.begins_word
        random = Random(seed)
        made_up = tf.constant([_made_up(random) for _ in range(_COPIES)])
        self._source_pieces = tokenizer.pieces(made_up).to_list()
        self._target_pieces = tokenizer.target_pieces(made_up).to_list()

    def __call__(
        self, source: np.ndarray, target: np.ndarray, links: np.ndarray, epoch: int, index: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A pair and its links as they are read in an epoch; `index` is its place in the corpus."""
        random = Random(f"terms {self._seed} {epoch} {index}")
        if random.random() >= self._share:
            return source, target, links
        phrases = phrases_of(source, target, links, self._begins_word)
        random.shuffle(phrases)
        chosen = []
        for phrase in phrases:
            if len(chosen) < _MAX_TERMS and not any(_overlap(phrase, x) for x in chosen):
                chosen.append(phrase)
            if random.random() < 0.5:
                break
        chosen.sort(key=lambda phrase: phrase.source.start)
        while chosen:
            phrase, before = chosen.pop(), len(target)  # The last: indices before it stay.
            source, target, links = self._with_term(source, target, links, phrase, random)
            chosen = [x.after_growth(phrase.target, len(target) - before) for x in chosen]
        return source, target, links

    def _with_term(self, source, target, links, phrase, random):
        words, term = source[phrase.source], target[phrase.target]
        if random.random() < 0.5:
            i = random.randrange(_COPIES)
            term = np.array(self._target_pieces[i], target.dtype)
            if random.random() < 0.5:
                words = np.array(self._source_pieces[i], source.dtype)
        begin, end = self._markers
        annotated = np.concatenate([words, [begin], term, [end]])
        source, at = _replaced(source, phrase.source, annotated, links[:, 0])
        target, position = _replaced(target, phrase.target, term, links[:, 1])
        kept = (at >= 0) & (position >= 0)
        # Links of the phrase's words go from the term's tokens to the same ones of the target.
        number = np.arange(len(term))
        at = np.concatenate([at[kept], phrase.source.start + len(words) + 1 + number])
        position = np.concatenate([position[kept], phrase.target.start + number])
        return source, target, np.stack([at, position], axis=1)


def _replaced(ids, place, others, indices):
    """Ids with others in the place of some, and the indices then, -1 for those of the place."""
    indices = indices.astype(int)
    moved = indices + np.where(indices < place.stop, 0, len(others) - (place.stop - place.start))
    indices = np.where((place.start <= indices) & (indices < place.stop), -1, moved)
    parts = ids[: place.start], others.astype(ids.dtype), ids[place.stop :]
    return np.concatenate(parts), indices


def phrases_of(
    source: Sequence[int], target: Sequence[int], links: np.ndarray, begins_word: np.ndarray
) -> list[Phrase]:
    """The phrases of up to three whole words that links agree with; each side's end is in none.

    Koehn et al. 2003, Statistical Phrase-Based Translation (https://aclanthology.org/N03-1017).
    """
    sides = [_word_starts(side, begins_word) for side in (source, target)]
    words = [np.searchsorted(side, links[:, i], side="right") - 1 for i, side in enumerate(sides)]
    phrases, count = [], len(sides[0]) - 1
    for first in range(count):
        for last in range(first, min(first + _MAX_WORDS, count)):
            inside = (words[0] >= first) & (words[0] <= last)
            if not inside.any():
                continue
            low, high = words[1][inside].min(), words[1][inside].max()
            others = (words[1] >= low) & (words[1] <= high) & ~inside
            if others.any() or high - low >= _MAX_WORDS or high >= len(sides[1]) - 1:
                continue
            target = slice(sides[1][low], sides[1][high + 1])
            phrases.append(Phrase(slice(sides[0][first], sides[0][last + 1]), target))
    return phrases


def _word_starts(ids, begins_word):
    """The index of the first token of each word, and at last that of the end."""
    starts = [i for i in range(len(ids) - 1) if i == 0 or begins_word[ids[i]]]
    return np.array([*starts, len(ids) - 1])


def _overlap(one, other):
    return any(a.start < b.stop and b.start < a.stop for a, b in zip(one, other, strict=True))


def _made_up(random):
    """A word, a name, a number, a placeholder or an address that no corpus has."""
    letters, digits = string.ascii_lowercase, string.digits

    def some(characters, low, high):
        return "".join(random.choices(characters, k=random.randint(low, high)))

    syllables = "".join(
        random.choice("bdfgklmnprstvwz") + random.choice("aeiou") + random.choice(["", "n", "r"])
        for _ in range(random.randint(1, 4))
    )
    return random.choice(
        [
            syllables,
            syllables.title(),
            f"{syllables.title()} {some(letters, 3, 8).title()}",
            some(digits, 2, 9),
            f"{some(digits, 1, 3)}.{some(digits, 1, 2)}",
            f"+{some(digits, 2, 2)} {some(digits, 3, 4)} {some(digits, 4, 7)}",
            "{" + some(letters, 2, 8) + "}",
            f"%({some(letters, 2, 8)})s",
            f"${some(string.ascii_uppercase, 2, 6)}",
            f"https://{some(letters, 3, 9)}.{random.choice(['com', 'org', 'de'])}/"
            + some(letters + digits, 0, 9),
            f"{some(letters, 2, 8)}@{some(letters, 3, 9)}.{random.choice(['com', 'org', 'de'])}",
        ]
    )
