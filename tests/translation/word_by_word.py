"""A translator that knows a few words, as a stand-in for models: TensorFlow computes nothing."""

import numpy as np

from keras_mt.options import TranslationOptions
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
        self.kept_kinds = TranslationOptions(keep=keep).keep
        self.searched, self.scored = {False: [], True: []}, []

    def _search(self, token_scores, confidence, attention, texts, prefixes=None):
        self.searched[attention] += texts
        return [self._found(text, confidence, attention and self.aligns) for text in texts]

    def _found(self, text, confidence, aligned):
        words = [KNOWN.get(word, word) for word in text.split()]
        several = [words, ["Tier" if word == "Hund" else word for word in words]][: self.n_best]
        return [
            _outputs(text.split(), target, score, confidence, aligned)
            for target, score in zip(several, (-0.5, -1.0), strict=False)
            if text != "refused"
        ]

    def _run(self, name, texts, target):
        """A word is less probable if the text has none that becomes it; "Tier" comes of "dog"."""
        self.scored.append(len(texts))
        return [_scores(*pair) for pair in zip(texts, target, strict=True)]

    _as_alignment = _translations = None


def _outputs(source, target, score, confidence, aligned):
    """The outputs of a search for a hypothesis."""
    row = {"translations": " ".join(target).encode(), "scores": score}
    if confidence:
        row |= {"mean_log_probs": score, "worst_log_probs": score, "worst_tokens": b"x"}
        row |= {"loops": False, "disproportionate": False}
    if aligned:
        for side, words in (("source", source), ("target", target)):
            row[f"{side}_tokens"] = [word.encode() for word in (*words, END)]
            row[f"{side}_lengths"] = len(words) + 1
        row["attention"] = np.eye(len(source) + 1)
    return row


def _scores(text, target):
    """The outputs of a score."""
    expected = {KNOWN.get(word, word) for word in text.split()} | {END}
    if "Hund" in expected:
        expected.add("Tier")
    words = [*target.split(), END]
    scores = [-1.0 if word in expected else -6.0 for word in words]
    return {"tokens": [word.encode() for word in words], "log_probs": scores, "lengths": len(words)}
