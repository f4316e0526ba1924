"""What a worker process of a server does: it loads a model, and translates batches."""

import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras_mt.errors import InputError
from keras_mt.serving.messages import Answer, Facts, Job
from keras_mt.text.glossary import Glossary
from keras_mt.translation.interface import LANGUAGES, BaseTranslator

_model: list[BaseTranslator] = []  # That of this process.
_glossaries: dict[str, Glossary] = {}


def start(translator: BaseTranslator, batch: int) -> Facts:
    """Makes this process a worker, which takes so many texts at once; returns its facts."""
    _model.append(translator)
    card = translator.card
    pairs = [tuple(pair.split("-", 1)) for pair in card.get("pairs") or ()] or None
    return Facts(
        os.getpid(),
        pairs if translator.languages else [(card.get("source"), card.get("target"))],
        list(translator.languages),
        translator.supports_alignment,
        translator.supports_alignment or translator.supports_scores,
        translator.supports_confidence,
        translator.options.split_sentences,
        batch,
    )


def translate(
    jobs: Sequence[Job], glossaries: Mapping[str, Any], forget: bool = False
) -> list[Answer]:
    """An answer for each job, all or none of which are detailed.

    One that fails takes no other with it. The worker remembers glossaries, terms by their keys,
    until it is to `forget` those of before.
    """
    try:
        if forget:
            _glossaries.clear()
        _glossaries.update({key: Glossary(terms) for key, terms in glossaries.items()})
        return list(_translated(*_model, jobs))
    except Exception as error:
        if len(jobs) > 1:
            return [x for job in jobs for x in translate([job], _own(glossaries, job))]
        if isinstance(error, InputError):
            return [Answer(refusal=str(error))]
        print("".join(traceback.format_tb(error.__traceback__)), file=sys.stderr)  # Without texts.
        return [Answer(failure=type(error).__name__)]


def _own(glossaries, job):
    return {key: terms for key, terms in glossaries.items() if key == job.glossary}


def _translated(translator, jobs) -> Iterator[Answer]:
    texts, *languages, terms, detailed = map(list, zip(*jobs, strict=True))
    columns = dict(zip(LANGUAGES, languages, strict=True)) if translator.languages else {}
    found = translator.hypotheses(
        texts,
        glossary=[_glossaries.get(key) for key in terms],
        confidence=detailed[0] and translator.supports_confidence,
        **columns,
    )
    best, links = [x[0].text if x else "" for x in found], [None] * len(texts)
    if detailed[0] and translator.supports_alignment:
        links = translator.align_words(texts, best, **columns)
    rows = zip(found, links, translator.token_counts(best), strict=True)
    for i, (hypotheses, own, tokens) in enumerate(rows):
        pairs = () if own is None else tuple(map(tuple, own.tolist()))
        yield Answer(hypotheses, pairs, tokens, found.refusals.get(i, ""))
