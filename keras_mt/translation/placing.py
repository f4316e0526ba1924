"""Hypotheses with terms, kept spans and markup in their places; without TensorFlow."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_mt.text.source import Alignment
from keras_mt.translation.requests import Request
from keras_mt.translation.results import (
    Hypothesis,
    as_alignment,
    as_hypothesis,
    as_pieces,
    by_hypothesis,
)


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
    pieces = (
        [[] if isinstance(row, str) else as_pieces(row) for row in score(every)] if every else []
    )
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
