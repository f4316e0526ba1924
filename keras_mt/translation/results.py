"""The results of translators, made from the outputs of the graph; without TensorFlow."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_mt.errors import DIVERGED, InputError
from keras_mt.options.search import NO_HYPOTHESIS
from keras_mt.text.replacing import Placed
from keras_mt.text.source import Alignment
from keras_mt.translation.requests import Request

# Why a text has no alignment or score, as far as a SavedModel says it.
_NOT_ALIGNED = f"a line is over the model's limit of tokens, or {DIVERGED}"
# The outputs of the graph that are measures of confidence.
MEASURES = "mean_log_probs", "worst_log_probs", "worst_tokens", "loops", "length_mismatch"


class Hypothesis(NamedTuple):
    """A translation.

    Measures of confidence do not say how good it is: a model may be confident and wrong.

    Attributes:
        text: The translation, str.
        score: (log_prob - word_penalty * length) / length ** length_penalty, where the
            log-probability includes the `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, if asked for; else None.
            Forced tokens (a language, the end by `force_end`) have theirs too, which the score
            leaves out.
        mean_log_prob: With `confidence`, the mean log-probability of its tokens with the end; else
            None.
        worst_token: With `confidence`, the least probable piece and its log-probability; None for
            an empty translation.
        warnings: With `confidence`, a tuple that may hold "loop", if a sequence of tokens repeats
            over and over, and none in the source does; and "length", if the longer of source and
            translation has more than twice the tokens of the shorter plus five. Each part that is
            translated by itself is checked by itself.
        placed: A `keras_mt.text.Placed` for each term and kept span that was put into the text.
            Scores, tokens and confidence are those before that.

    Example:

    >>> Hypothesis("The book is on the table.", -0.05).text
    'The book is on the table.'
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None
    mean_log_prob: float | None = None
    worst_token: tuple[str, float] | None = None
    warnings: tuple[str, ...] = ()
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


def as_results(one: bool, outcomes: Sequence[Any]) -> Any:
    """`Results` of texts, or that of the one text.

    An outcome is a result, or a str: the reason why the text is refused.
    """
    refusals = {i: outcome for i, outcome in enumerate(outcomes) if isinstance(outcome, str)}
    if one and refusals:
        raise InputError(f"The text is refused: {refusals[0]}")
    results = [None if i in refusals else outcome for i, outcome in enumerate(outcomes)]
    return results[0] if one else Results(results, refusals)


def as_outcome(row: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The outputs of the graph for a text, or why it is refused, which an export does not say."""
    if "refused" in row:
        return as_str(row["refused"]) or row
    if "target_lengths" in row:
        return row if np.any(row["target_lengths"]) else _NOT_ALIGNED
    if "translations" not in row:
        return row if row["log_probs"] > NO_HYPOTHESIS else _NOT_ALIGNED
    return row if row["scores"].max() > NO_HYPOTHESIS else DIVERGED


def by_hypothesis(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The outputs for one text, those of each hypothesis that it has."""
    if np.ndim(row.get("scores", 0.0)) == 0:  # Of a score, or of the best one alone.
        return [row]
    places = [k for k, score in enumerate(row["scores"]) if score > NO_HYPOTHESIS]
    return [{name: x[k] for name, x in row.items() if name != "refused"} for k in places]


def placed(
    outcomes: Mapping[Request, dict[str, Any] | str],
    score: Callable[[list[Request]], list[dict[str, Any] | str]] | None,
) -> list[list[Hypothesis] | str]:
    """The hypotheses of requests, from their outputs of a search; why one is refused stays.

    `score` gives the outputs of a score of given translations, all at once; None if there is none.
    """
    rows = [
        (request, row, as_alignment(row))
        for request, outcome in outcomes.items()
        if not isinstance(outcome, str)
        for row in by_hypothesis(outcome)
    ]
    asked = [_probed(*each) if score else [] for each in rows]
    every = list(dict.fromkeys(one for several in asked for one in several))
    outputs = score(every) if every else []
    pieces = [[] if isinstance(row, str) else as_pieces(row) for row in outputs]
    scored = dict(zip(every, pieces, strict=True))
    found = {x: outcome if isinstance(outcome, str) else [] for x, outcome in outcomes.items()}
    for (request, row, alignment), own in zip(rows, asked, strict=True):
        hypothesis, source = as_hypothesis(row), request.source
        if not source.is_plain:
            falls = _falls(alignment, [scored[one] for one in own])
            text, spans = source.translated(hypothesis.text, *falls, request.prefix)
            hypothesis = hypothesis._replace(text=text, placed=spans)
            if text in [other.text for other in found[request]]:  # They are equal now.
                continue
        found[request].append(hypothesis)
    return list(found.values())


def _probed(request, row, alignment) -> list[Request]:
    """The requests whose scores say what became of spans: the text itself, and its probes."""
    source = request.source
    target = as_hypothesis(row).text
    probes = [] if source.is_plain else source.probes(target, alignment)
    return [
        dataclasses.replace(request, text=text, target=target, prefix="", source=None)
        for text in ([source.text, *probes] if probes else [])
    ]


def _falls(
    alignment: Alignment | None, scored: Sequence[list[tuple[str, float]]]
) -> tuple[Alignment | None, list[np.ndarray]]:
    """A translation's alignment, and by how much its pieces are less probable given each probe.

    `scored` has its pieces with their log-probabilities given the text itself, and then each probe.
    Without an alignment the pieces are those. Without scores, or with scores of other pieces, which
    a text has that was cut, no fall is known.
    """
    if not scored or not all(scored):
        return alignment, []
    alignment = alignment or Alignment([], [piece for piece, _ in scored[0]], None)
    # Each part ends with the end, and a probe may have other parts than the text.
    pieces = np.array(alignment.target_pieces)
    is_word = pieces != pieces[-1]
    values = [[x for piece, x in each if piece != pieces[-1]] for each in scored]
    if {*map(len, values)} != {is_word.sum()} or not np.isfinite(values).all():
        return alignment, []
    falls = np.zeros((len(values) - 1, len(pieces)))
    falls[:, is_word] = np.array(values[:1]) - values[1:]
    return alignment, list(falls)


def as_hypothesis(row: Mapping[str, Any]) -> Hypothesis:
    """A hypothesis from its outputs of a search."""
    hypothesis = Hypothesis(as_str(row["translations"]), float(row["scores"]))
    if "log_probs" in row:
        hypothesis = hypothesis._replace(tokens=as_pieces(row))
    if "mean_log_probs" not in row:
        return hypothesis
    token = as_str(row["worst_tokens"])
    warnings = {"loop": row["loops"], "length": row["length_mismatch"]}
    return hypothesis._replace(
        mean_log_prob=float(row["mean_log_probs"]),
        worst_token=(token, float(row["worst_log_probs"])) if token else None,
        warnings=tuple(name for name, is_so in warnings.items() if is_so),
    )


def as_pieces(row: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The pieces of a target, each with its log-probability; none of one that is refused."""
    pieces = map(as_str, row["tokens"][: row["lengths"]])
    log_probs = row.get("token_log_probs", row["log_probs"])  # An export's log_probs are sums.
    return list(zip(pieces, map(float, log_probs), strict=False))


def as_alignment(row: Mapping[str, Any]) -> Alignment | None:
    """The alignment of a target from the outputs of `align`, or of a search; None without one."""
    if not row.get("target_lengths"):
        return None
    sides = [(row[f"{x}_tokens"], row[f"{x}_lengths"]) for x in ("source", "target")]
    source, target = (list(map(as_str, tokens[:length])) for tokens, length in sides)
    return Alignment(source, target, row["attention"][: len(target), : len(source)])


def as_str(text: bytes) -> str:
    """A string of the graph, whose bytes may be no UTF-8."""
    return text.decode("utf-8", "replace")
