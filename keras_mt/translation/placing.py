"""Hypotheses with terms, kept spans and markup in their places; without TensorFlow."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_mt.text.source import Alignment
from keras_mt.translation.requests import Request
from keras_mt.translation.results import Hypothesis, as_alignment, as_hypothesis, as_pieces


class _Draft(NamedTuple):
    """A hypothesis as it was found, and what its spans are placed by."""

    hypothesis: Hypothesis
    alignment: Alignment | None = None
    # The requests whose scores say what became of spans: the text itself, and its probes.
    asked: Sequence[Request] = ()


def placed(
    requests: Sequence[Request],
    outcomes: Sequence[list[dict[str, Any]] | str],
    score: Callable[[list[Request]], list[dict[str, Any] | str]] | None,
) -> list[list[Hypothesis] | str]:
    """The hypotheses of requests, from their outputs of a search; why one is refused stays.

    `score` gives the outputs of a score of given translations, all at once; None if there is none.
    """
    drafts = [
        outcome if isinstance(outcome, str) else [_draft(request, row, score) for row in outcome]
        for request, outcome in zip(requests, outcomes, strict=True)
    ]
    lists = [several for several in drafts if not isinstance(several, str)]
    asked = list(
        dict.fromkeys(one for several in lists for draft in several for one in draft.asked)
    )
    rows = score(asked) if asked else []
    pieces = [[] if isinstance(row, str) else as_pieces(row) for row in rows]
    scored = dict(zip(asked, pieces, strict=True))
    return [
        several if isinstance(several, str) else _hypotheses(request, several, scored)
        for request, several in zip(requests, drafts, strict=True)
    ]


def _draft(request, row, score):
    hypothesis, source = as_hypothesis(row), request.source
    if source.is_plain:
        return _Draft(hypothesis)
    alignment = as_alignment(row)
    probes = source.probes(hypothesis.text, alignment) if score else []
    asked = [
        dataclasses.replace(request, text=text, target=hypothesis.text, source=None)
        for text in ([source.text, *probes] if probes else [])
    ]
    return _Draft(hypothesis, alignment, asked)


def _hypotheses(request, drafts, scored):
    """The hypotheses of a request; of those that are equal now, the first."""
    if request.source.is_plain:
        return [draft.hypothesis for draft in drafts]
    found = {}
    for hypothesis, alignment, asked in drafts:
        falls = _falls(alignment, [scored[one] for one in asked])
        text, spans = request.source.translated(hypothesis.text, *falls, request.target)
        found.setdefault(text, hypothesis._replace(text=text, placed=spans))
    return list(found.values())


def _falls(alignment, scored):
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
