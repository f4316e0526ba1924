"""What a worker process of a server does: it loads a model, and translates batches."""

import functools
import itertools
import os
import pickle
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_mt.errors import InputError
from keras_mt.text.glossary import Glossary
from keras_mt.translation.interface import LANGUAGES, BaseTranslator
from keras_mt.translation.results import Hypothesis

_model: list[BaseTranslator] = []  # That of this process.


class Job(NamedTuple):
    """A text for a worker.

    Attributes:
        text: The text, a str or a `keras_mt.text.Fragment`.
        source_language, target_language: Codes of the model; None where it has no choice.
        terms: The pickled terms of a glossary, or None.
        detailed: Whether confidence and the links of words are wanted.
    """

    text: str
    source_language: str | None = None
    target_language: str | None = None
    terms: bytes | None = None
    detailed: bool = False


class Answer(NamedTuple):
    """What became of a job: hypotheses, best first, or why there are none.

    Attributes:
        hypotheses: None if there is no translation.
        links: Pairs of words, counted from 0, of the text and its best translation.
        refusal: Why the text is refused.
        failure: What went wrong, if that is no fault of the text.
    """

    hypotheses: list[Hypothesis] | None = None
    links: tuple[tuple[int, int], ...] = ()
    refusal: str = ""
    failure: str = ""


class Facts(NamedTuple):
    """What a worker says of its model when it is ready.

    Attributes:
        pid: The number of its process.
        pairs: The pairs of languages.
        languages: The codes of a model of several languages.
        supports_alignment, supports_terms: What it can do.
        split_sentences: Whether it translates sentence by sentence.
        batch: The texts that it takes at once.
    """

    pid: int
    pairs: list[tuple[str, str]]
    languages: list[str]
    supports_alignment: bool
    supports_terms: bool
    split_sentences: bool
    batch: int


def start(translator: BaseTranslator, batch: int) -> Facts:
    """Makes this process a worker, which takes so many texts at once; returns its facts."""
    _model.append(translator)
    card, languages = translator.card, list(translator.languages)
    pairs = [(card.get("source"), card.get("target"))]
    if languages:
        pairs = [tuple(pair.split("-", 1)) for pair in card.get("pairs") or ()]
    return Facts(
        os.getpid(),
        pairs or list(itertools.permutations(languages, 2)),
        languages,
        translator.supports_alignment,
        translator.supports_alignment or translator.supports_scores,
        translator.options.split_sentences,
        batch,
    )


def translate(jobs: Sequence[Job]) -> list[Answer]:
    """An answer for each job, all or none of which are detailed; one that fails fails alone."""
    try:
        return list(_translated(*_model, jobs))
    except Exception as error:
        if len(jobs) > 1:
            return [answer for job in jobs for answer in translate([job])]
        if isinstance(error, InputError):
            return [Answer(refusal=str(error))]
        print("".join(traceback.format_tb(error.__traceback__)), file=sys.stderr)  # Without texts.
        return [Answer(failure=type(error).__name__)]


@functools.lru_cache(64)
def _glossary(terms):
    return terms and Glossary(pickle.loads(terms))


def _translated(translator, jobs) -> Iterator[Answer]:
    texts, *languages, terms, detailed = map(list, zip(*jobs, strict=True))
    columns = dict(zip(LANGUAGES, languages, strict=True)) if translator.languages else {}
    found = translator.hypotheses(
        texts,
        glossary=[*map(_glossary, terms)],
        confidence=detailed[0] and translator.supports_confidence,
        **columns,
    )
    links = [None] * len(texts)
    if detailed[0] and translator.supports_alignment:
        best = [hypotheses[0].text if hypotheses else "" for hypotheses in found]
        links = translator.align_words(texts, best, **columns)
    for i, (hypotheses, own) in enumerate(zip(found, links, strict=True)):
        pairs = () if own is None else tuple(map(tuple, own.tolist()))
        yield Answer(hypotheses, pairs, found.refusals.get(i, ""))
