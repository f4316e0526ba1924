"""Texts of requests, cut into what models translate, and put together again."""

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from starlette.exceptions import HTTPException

from keras_mt.documents.html import HtmlDocument
from keras_mt.errors import InputError
from keras_mt.serving.worker import Answer, Facts, Job
from keras_mt.text.markup import BLOCKS, HtmlFragment, Tokens
from keras_mt.text.plain import split_sentences

_BREAKS = re.compile(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
_BOM = b"\xef\xbb\xbf"  # A page in UTF-8, whatever its text says.


@dataclasses.dataclass(frozen=True)
class Wish:
    """How a text is to be translated.

    Attributes:
        source, target: Codes of languages that the catalogue has; the former may be "", that of
            the text.
        glossary: The id of a glossary, or None.
        html: Whether the text is HTML, a page or a part of one.
        split: "1" for sentences and lines, "nonewlines" for sentences that lines may cross, "0" for
            lines alone, as in the API of DeepL.
        detailed: Whether confidence, warnings and links are wanted.
        confidence: The probability of the source.
    """

    source: str
    target: str
    glossary: str | None = None
    html: bool = False
    split: str = "1"
    detailed: bool = False
    confidence: float = 1.0


class Translation(NamedTuple):
    """A translation of a text.

    Attributes:
        text: The translation.
        alternatives: Others, the best first.
        links: Places that belong together: `(start, end, start, end)`, in characters of the text
            and of the translation.
        warnings: `(start, end, warning)` of parts of the translation.
        source: The language of the text, which may have been found, with its probability.
    """

    text: str
    alternatives: list[str]
    links: list[tuple[int, int, int, int]]
    warnings: list[tuple[int, int, str]]
    source: tuple[str, float]


class Plan:
    """A text, which may be a `Fragment`, as jobs for a model, with the pickled terms of a glossary.

    Raises HTTPException if the model cannot do what is wished.

    Attributes:
        characters: The number of characters of the text.
        jobs: The jobs.
    """

    def __init__(self, text: str, wish: Wish, facts: Facts, terms: bytes | None = None) -> None:
        self.characters, self._source = len(text), (wish.source, wish.confidence)
        self._gaps = []
        if getattr(text, "elements", ()):
            parts, self._write = [text], lambda found: found[0]
        elif wish.html:
            parts, self._write = _of_html(text)
        else:
            self._gaps, parts = _parts(text, wish.split, facts.split_sentences)
            self._write = lambda found: _joined(self._gaps, found)
        if not facts.supports_alignment and any(getattr(part, "elements", ()) for part in parts):
            raise HTTPException(400, "this model has no attention to place the elements of HTML by")
        if wish.glossary is not None and not facts.supports_terms:
            raise HTTPException(400, "this model takes no glossary: it has no attention or scores")
        languages = (wish.source, wish.target) if facts.languages else (None, None)
        detailed = wish.detailed and not wish.html
        self.jobs = [Job(part, *languages, terms, detailed) for part in parts]

    def translation(self, answers: Sequence[Answer]) -> Translation:
        """The translation of the text; HTTPException if a part of it has none."""
        for job, answer in zip(self.jobs, answers, strict=True):
            if answer.failure:
                raise HTTPException(500, f"a text could not be translated: {answer.failure}")
            if answer.hypotheses is None:
                raise HTTPException(400, f"{job.text[:60]!r} is refused: {answer.refusal}")
        found = [answer.hypotheses for answer in answers]
        texts = []
        for k in range(max(map(len, found), default=1)):
            texts.append(self._write([own[min(k, len(own) - 1)].text for own in found]))
        best, *others = dict.fromkeys(texts)
        return Translation(best, others, *self._details(answers), self._source)

    def _details(self, answers):
        """The links and warnings of all parts, by their places in the whole."""
        links, warnings, starts = [], [], [0, 0]
        for gap, job, answer in zip(self._gaps, self.jobs, answers, strict=False):
            best = answer.hypotheses[0]
            starts = [start + len(gap) for start in starts]
            words = [
                [(start + m.start(), start + m.end()) for m in re.finditer(r"\S+", text)]
                for start, text in zip(starts, (job.text, best.text), strict=True)
            ]
            links += [(*words[0][i], *words[1][j]) for i, j in answer.links]
            end = starts[1] + len(best.text)
            warnings += [(starts[1], end, warning) for warning in best.warnings]
            starts = [starts[0] + len(job.text), end]
        return links, warnings


def _parts(text, split, by_sentence):
    """The white space before each sentence or line and behind the last one; and these."""
    if split == "nonewlines":
        text = _BREAKS.sub(" ", text)
    gaps, parts, gap = [], [], ""
    for line in _BREAKS.split(text):
        if not line.strip():
            gap += line
            continue
        place = 0
        sentences, befores = split_sentences(line.rstrip(), by_sentence and split != "0")
        for before, sentence in zip(befores, sentences, strict=True):
            start = line.find(sentence, place)
            # It is not found where models are spared control characters.
            gaps.append(gap + (before if start < 0 else line[place:start]))
            parts.append(sentence)
            gap, place = "", len(line.rstrip()) if start < 0 else start + len(sentence)
        gap += line[place:]
    return [*gaps, gap], parts


def _joined(gaps, texts):
    return "".join(itertools.chain(*itertools.zip_longest(gaps, texts, fillvalue="")))


def _of_html(text):
    """The texts of the blocks of HTML, and a function that writes it with their translations."""
    try:
        if any(token.name in BLOCKS for token in Tokens(text)):
            document = HtmlDocument(_BOM + text.encode())
            texts = [unit.text for unit in document.units]
            return texts, lambda found: document.write(found)[len(_BOM) :].decode()
        html = HtmlFragment(text)
        return [html.fragment], lambda found: html.written(found[0])
    except InputError as error:
        raise HTTPException(400, str(error)) from None
