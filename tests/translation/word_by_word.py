"""A translator that knows a few words, as a stand-in for models: TensorFlow computes nothing."""

import numpy as np

from keras_mt.options import TranslationOptions
from keras_mt.translation.interface import BaseTranslator

KNOWN = {"the": "der", "big": "große", "dog": "Hund", "sleeps": "schläft", "at": "bei"}
END = b"</s>"
REFUSED = "the model gives no finite probabilities."


class WordByWord(BaseTranslator):
    """Each word becomes one; in the second hypothesis "Hund" is "Tier".

    `searched` are the texts that it was given, without attention and with it, and `scored` how many
    it scored at once.
    """

    fingerprint, card, supports_alignment = "words", {}, True

    def __init__(self, glossary=None, n_best=1, keep=None, supports_alignment=True, **options):
        self.glossary, self.supports_alignment = glossary, supports_alignment
        self.options = TranslationOptions(n_best=n_best, keep=keep)
        self.searched, self.scored = {False: [], True: []}, []

    def _function(self, name, columns, confidence=False, **flags):
        def translate(text):
            self.searched[False] += [each.decode() for each in text]
            return _columns([self._found(each, confidence) for each in text])

        def align(text, target):
            self.searched[True] += [each.decode() for each in text]
            assert not any(target)
            found = [self._found(each, confidence) for each in text]
            return _columns([_aligned(*pair) for pair in zip(text, found, strict=True)])

        def score(text, target):
            self.scored.append(len(text))
            return _columns([_scores(*pair) for pair in zip(text, target, strict=True)])

        return {"translate": translate, "align": align, "score": score}[name]

    def _found(self, text, confidence):
        best = _translated(text)
        scores = [-0.5, -1.0][: self.options.n_best]
        outputs = {
            "translations": [best, best.replace(b"Hund", b"Tier")][: self.options.n_best],
            "scores": scores,
            "refused": REFUSED.encode() if text == b"refused" else b"",
        }
        if confidence:
            outputs |= {"mean_log_probs": scores, "worst_log_probs": scores}
            outputs |= {"worst_tokens": [b"x"] * 2, "loops": [False] * 2}
            outputs |= {"length_mismatch": [False] * 2}
        return outputs


def _columns(rows):
    """The outputs of all texts by name; those of different lengths are not padded."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def _translated(text):
    return " ".join(KNOWN.get(word, word) for word in text.decode().split()).encode()


def _aligned(text, found):
    """The outputs of `align`: those of a search, and word by word."""
    targets, outputs = found["translations"], {**found}
    for side, texts in (("source", [text] * len(targets)), ("target", targets)):
        outputs[f"{side}_tokens"] = [[*each.split(), END] for each in texts]
        outputs[f"{side}_lengths"] = [len(tokens) for tokens in outputs[f"{side}_tokens"]]
    return outputs | {"attention": [np.eye(length) for length in outputs["target_lengths"]]}


def _scores(text, target):
    """The outputs of a score: a word is less probable if the text has none that becomes it."""
    expected = {*_translated(text).split(), END}
    if b"Hund" in expected:
        expected.add(b"Tier")  # It comes of "dog", too.
    tokens = [*target.split(), END]
    log_probs = [-1.0 if token in expected else -6.0 for token in tokens]
    return {"tokens": tokens, "log_probs": log_probs, "lengths": len(tokens), "refused": b""}
