"""A translator that knows a few words, as a stand-in for models: TensorFlow computes nothing."""

from itertools import repeat

import numpy as np

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.options import TranslationOptions
from keras_mt.text import Alignment
from keras_mt.translation.base import BaseTranslator

KNOWN = {"the": "der", "big": "große", "dog": "Hund", "sleeps": "schläft", "at": "bei"}
END = "</s>"


class WordByWord(BaseTranslator):
    """Each word becomes one; in the second hypothesis "Hund" is "Tier".

    `searched` are the texts that it was given, without attention and with it, and `scored` how many
    it scored at once.
    """

    fingerprint, card, aligns = "words", {}, True

    def __init__(self, glossary=None, n_best=1, keep=None, aligns=True, **options):
        self.glossary, self.n_best, self.aligns = glossary, n_best, aligns
        self.kept_kinds = TranslationOptions(keep=keep).kept_kinds
        self.searched, self.scored = {False: [], True: []}, []

    def _search(self, token_scores, confidence, attention, texts, prefixes=None):
        self.searched[attention] += texts
        return [self._row(text, confidence, attention and self.aligns) for text in texts]

    def _row(self, text, confidence, aligned):
        if text == "refused":
            return {"scores": [NO_HYPOTHESIS]}
        words = [KNOWN.get(word, word) for word in text.split()]
        several = [words, ["Tier" if word == "Hund" else word for word in words]][: self.n_best]
        row = {"translations": [" ".join(w).encode() for w in several], "scores": [-0.5, -1.0]}
        row["scores"] = row["scores"][: self.n_best]
        if confidence:
            row["mean_log_probs"] = row["worst_log_probs"] = row["scores"]
            row["loops"] = row["disproportionate"] = [False, False]
            row["worst_tokens"] = [b"x", b"x"]
        if aligned:
            source, weights = [*text.split(), END], np.eye(len(words) + 1)
            row["alignments"] = [Alignment(source, [*words, END], weights) for words in several]
        return row

    def _scored(self, texts, targets):
        """A word is less probable if the text has none that becomes it; "Tier" comes of "dog"."""
        self.scored.append(len(texts))
        return [
            list(map(_word, repeat(text), [*target.split(), END]))
            for text, target in zip(texts, targets, strict=True)
        ]

    def _align(self, source, target):
        raise NotImplementedError

    _as_alignment = _translations = _align


def _word(text, word):
    expected = {KNOWN.get(word, word) for word in text.split()}
    expected |= {"Tier", END} if "Hund" in expected else {END}
    return word, -1.0 if word in expected else -6.0
