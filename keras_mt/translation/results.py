"""What translators return, made from the outputs of the graph."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_mt.decoding import NO_HYPOTHESIS


class Hypothesis(NamedTuple):
    """A translation.

    Attributes:
        text: The translation, str.
        score: log_prob / length ** length_penalty, where the log-probability includes the
            `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, if asked for; else None.
            Tokens that were forced (a language, the end by `force_end`) have theirs too, which the
            score leaves out.

    Example:

    >>> Hypothesis("The book is on the table.", -0.05).text
    'The book is on the table.'
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None


class AssessedHypothesis(NamedTuple):
    """A translation with measures of confidence.

    They do not say how good the translation is: a model may be confident and wrong.

    Attributes:
        text: The translation, str.
        score: As in `Hypothesis`.
        tokens: As in `Hypothesis`.
        mean_log_prob: The mean log-probability of its tokens with the end, whatever the length
            penalty of the score.
        worst_token: The least probable piece and its log-probability; None for an empty
            translation.
        warnings: A tuple that may hold "loop", if a sequence of tokens repeats over and over, and
            none in the source does; and "length", if the longer of source and translation has more
            than twice the tokens of the shorter plus five. Each line, and each sentence that is
            translated by itself, is checked by itself.

    Example:

    >>> results = translator.hypotheses(["O livro."], confidence=True)  # doctest: +SKIP
    >>> results[0][0].mean_log_prob, results[0][0].warnings  # doctest: +SKIP
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None
    mean_log_prob: float
    worst_token: tuple[str, float] | None
    warnings: tuple[str, ...]


class Results(list):
    """A result for each text, None for one that is refused.

    Args:
        results: The results.
        refusals: For each refused text, its index and the reason; also an attribute.

    Example:

    >>> results = Results([[Hypothesis("Hello!", -0.1)], None], {1: "it has a line of 20 MB"})
    >>> [results.refusals.get(i, "") for i in range(2)]
    ['', 'it has a line of 20 MB']
    """

    def __init__(self, results: Iterable[Any], refusals: Mapping[int, str]):
        super().__init__(results)
        self.refusals = dict(refusals)


class Score(NamedTuple):
    """How probable a given translation is under the model.

    Attributes:
        log_prob: Its log-probability, the sum of those of its tokens.
        tokens: Its pieces with the end, each with its log-probability.

    Example:

    >>> score = Score(-1.5, [("▁The", -0.5), ("▁book", -0.75), ("</s>", -0.25)])
    >>> round(score.perplexity, 4)
    1.6487
    """

    log_prob: float
    tokens: list[tuple[str, float]]

    @property
    def perplexity(self) -> float:
        """Perplexity per token, the end included: exp(-log_prob / number of tokens)."""
        return math.exp(-self.log_prob / len(self.tokens))


def as_hypotheses(row: Mapping[str, Any]) -> list[Hypothesis | AssessedHypothesis] | None:
    """The hypotheses from the outputs of a search for one text; None if it found none."""
    if row["scores"][0] <= NO_HYPOTHESIS:
        return None
    hypotheses = [
        Hypothesis(translation.decode("utf-8", "replace"), float(score))
        for translation, score in zip(row["translations"], row["scores"], strict=True)
        if score > NO_HYPOTHESIS
    ]
    if "mean_log_probs" not in row:
        return hypotheses
    return [_assessed(hypothesis, row, i) for i, hypothesis in enumerate(hypotheses)]


def _assessed(hypothesis, row, i):
    token = row["worst_tokens"][i].decode("utf-8", "replace")
    warnings = {"loop": row["loops"][i], "length": row["disproportionate"][i]}
    return AssessedHypothesis(
        *hypothesis,
        mean_log_prob=float(row["mean_log_probs"][i]),
        worst_token=(token, float(row["worst_log_probs"][i])) if token else None,
        warnings=tuple(name for name, is_so in warnings.items() if is_so),
    )


def as_alignment(row: Mapping[str, Any]) -> tuple[list[str], list[str], np.ndarray]:
    """The pieces of both sides and their attention, from the outputs of `align` for one text."""
    pieces = [
        [piece.decode("utf-8") for piece in row[f"{side}_tokens"][: row[f"{side}_lengths"]]]
        for side in ("source", "target")
    ]
    return *pieces, row["attention"][: len(pieces[1]), : len(pieces[0])]
