"""What translators return, made from the outputs of the graph."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.text.source import Alignment, Placed


class Hypothesis(NamedTuple):
    """A translation.

    Attributes:
        text: The translation, str.
        score: log_prob / length ** length_penalty, where the log-probability includes the
            `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, if asked for; else None.
            Tokens that were forced (a language, the end by `force_end`) have theirs too, which the
            score leaves out.
        placed: A `keras_mt.text.Placed` for each term and kept span that was put into the text: its
            source, what stands for it, and a warning where its place is doubtful, or None. Scores,
            tokens and confidence are those before that.

    Example:

    >>> Hypothesis("The book is on the table.", -0.05).text
    'The book is on the table.'
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None
    placed: tuple[Placed, ...] = ()


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
        placed: As in `Hypothesis`.

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
    placed: tuple[Placed, ...] = ()


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


def as_hypotheses(row: Mapping[str, Any]) -> list[Hypothesis | AssessedHypothesis]:
    """The hypotheses from the outputs of a search for one text."""
    return [_hypothesis(row, i) for i, score in enumerate(row["scores"]) if score > NO_HYPOTHESIS]


def _hypothesis(row, i):
    tokens = None
    if "log_probs" in row:
        tokens = as_pieces(*(row[name][i] for name in ("tokens", "log_probs", "lengths")))
    first = row["translations"][i].decode("utf-8", "replace"), float(row["scores"][i]), tokens
    if "mean_log_probs" not in row:
        return Hypothesis(*first)
    token = row["worst_tokens"][i].decode("utf-8", "replace")
    warnings = {"loop": row["loops"][i], "length": row["disproportionate"][i]}
    return AssessedHypothesis(
        *first,
        mean_log_prob=float(row["mean_log_probs"][i]),
        worst_token=(token, float(row["worst_log_probs"][i])) if token else None,
        warnings=tuple(name for name, is_so in warnings.items() if is_so),
    )


def as_pieces(
    pieces: Sequence[bytes], log_probs: Sequence[float], length: int
) -> list[tuple[str, float]]:
    """The first `length` pieces, each with its log-probability."""
    pieces = [piece.decode("utf-8", "replace") for piece in pieces[:length]]
    return list(zip(pieces, map(float, log_probs[:length]), strict=True))


def as_alignments(row: Mapping[str, Any]) -> list[Alignment]:
    """The alignment of each hypothesis, from the outputs of a search for one text."""

    def strings(pieces, length):
        return [piece.decode("utf-8", "replace") for piece in pieces[:length]]

    source = strings(row["source_tokens"], row["source_lengths"])
    targets = list(map(strings, row["target_tokens"], row["target_lengths"]))
    weights = row.get("attention", [None] * len(targets))
    return [
        Alignment(source, pieces, None if x is None else x[: len(pieces), : len(source)])
        for pieces, x in zip(targets, weights, strict=True)
    ]


def of_search(row: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of `align` for one text as those of a search that has one hypothesis."""
    return {name: x if name.startswith("source") else [x] for name, x in row.items()}


def as_falls(
    alignment: Alignment | None, scored: Sequence[Sequence[tuple[str, float]] | None]
) -> tuple[Alignment | None, list[np.ndarray]]:
    """By how much a translation's pieces are less probable by each probe, and its alignment.

    `scored` has its pieces with their log-probabilities by the text itself, and then by each probe.
    Without an alignment the pieces are those. Without scores, or with scores of other pieces, which
    a text has that was cut, no fall is known.
    """
    if not scored or None in scored:
        return alignment, []
    if alignment is None:
        alignment = Alignment([], [piece for piece, _ in scored[0]], None)
    # Each part ends with the end, and a probe may have other parts than the text.
    pieces = np.array(alignment.target_pieces)
    real = pieces != pieces[-1]
    values = [[x for piece, x in each if piece != pieces[-1]] for each in scored]
    if {len(each) for each in values} != {real.sum()}:
        return alignment, []
    falls = np.zeros((len(scored) - 1, len(pieces)))
    falls[:, real] = np.array(values[:1]) - values[1:]
    return alignment, list(falls)
