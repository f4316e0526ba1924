"""The base class of all translators from strings to strings; without TensorFlow."""

import abc
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from keras_mt.alignment.links import attention_links
from keras_mt.errors import InputError
from keras_mt.options.search import TranslationOptions, check_language
from keras_mt.text.glossary import Glossary
from keras_mt.text.source import Alignment, Source
from keras_mt.text.words import words_of_pieces
from keras_mt.translation.batches import run_in_batches
from keras_mt.translation.requests import Request, as_columns, for_each, is_tensor
from keras_mt.translation.results import (
    Hypothesis,
    Results,
    Score,
    as_alignment,
    as_outcome,
    as_pieces,
    as_results,
    by_hypothesis,
    placed,
)

LANGUAGES = "source_language", "target_language"
# A language code for all texts, or one code per text; None for the default.
Codes = str | Iterable[str] | None
# A glossary for all texts, or one per text; None for the default.
Glossaries = Glossary | Iterable[Glossary | None] | None
_GLOSSARY = "a keras_mt.Glossary, such as Glossary({'bank': 'Institut'})"


class BaseTranslator(abc.ABC):
    """A translator: callable on a str, a list of str or a string tensor.

    `options` are its `TranslationOptions`, and `languages` those of the model, empty if there is no
    choice. `reads_terms` says whether terms are written into what the model reads, and
    `trusted_attention` whether its attention is that of a head that was trained or chosen to align
    words.
    """

    options: TranslationOptions
    glossary: Glossary | None = None
    languages: Sequence[str] = ()
    source_language: str | None = None
    target_language: str | None = None
    reads_terms: bool = False
    trusted_attention: bool = False
    supports_alignment: bool  # Whether the model has attention weights for `align`.
    supports_confidence: bool = True
    supports_scores: bool = True  # Whether it scores given translations.
    on_batch: Callable[[int], Any] | None = None  # Told the number of texts of each batch done.
    _codes: Sequence[Sequence[str]] = (), ()  # Those of `languages` that each side may have.

    def __call__(
        self,
        texts: str | Iterable[str],
        prefixes: str | Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
        glossary: Glossaries = None,
        markup: str | None = None,
    ) -> str | list[str] | list[list[str]]:
        columns = {
            "prefixes": prefixes,
            "source_language": source_language,
            "target_language": target_language,
            "glossary": glossary,
            "markup": markup,
        }
        if is_tensor(texts):
            from keras_mt.translation.tensors import translated_tensor  # It imports TensorFlow.

            return translated_tensor(self.hypotheses, texts, self.options.n_best, **columns)
        found = self.hypotheses(texts, **columns)
        if isinstance(texts, str):
            return self._texts_of(found)
        for i, reason in found.refusals.items():
            raise InputError(f"texts[{i}] is refused: {reason}")
        return [self._texts_of(hypotheses) for hypotheses in found]

    def _texts_of(self, hypotheses):
        texts = [hypothesis.text for hypothesis in hypotheses]
        return texts[0] if self.options.n_best == 1 else texts

    def hypotheses(
        self,
        texts: str | Iterable[str],
        prefixes: str | Iterable[str] | None = None,
        token_scores: bool = False,
        source_language: Codes = None,
        target_language: Codes = None,
        confidence: bool = False,
        glossary: Glossaries = None,
        markup: str | None = None,
    ) -> list[Hypothesis] | Results:
        """The `n_best` translations of each text with their scores.

        Terms and kept spans are put in the places of what became of them; a prefix stays as it is.
        Hypotheses that are equal then are listed once. An export takes no prefixes and gives no
        token scores, and a confidence only if it was exported with the signature `confidence`.

        Args:
            texts: A str or a list of str. Those that are a `keras_mt.text.Fragment` have inline
                elements, which are put around what the words became: so are the hypotheses' texts.
            token_scores: Whether to fill in the hypotheses' `tokens`.
            confidence: Whether to fill in `mean_log_prob`, `worst_token` and `warnings`.
            prefixes, source_language, target_language, glossary, markup: As in a call.

        Returns:
            For a str a list of `Hypothesis`, best first; for a list `Results` of such lists. A text
            is refused if a line is too long, if its prefix is longer than the model's limit, if
            both it and its prefix have several lines or sentences, or if the model's probabilities
            are not finite.

        Raises:
            ValueError: If a str is refused, an argument has the wrong type, lists differ in length,
                a language is unknown or missing, an export does not give what is asked for, or the
                texts have markup and the model has no attention to place it by.

        Example:

        >>> translator.hypotheses(["O livro."], token_scores=True)[0][0].tokens  # doctest: +SKIP
        """
        flags = {"token_scores": token_scores, "confidence": confidence}
        self._check_asked(prefixes, **flags)
        columns = {"texts": texts, "prefixes": prefixes}
        one, requests = self._requests(columns, source_language, target_language, glossary, markup)
        outcomes = dict.fromkeys(requests)  # Each has a `Source` of its own, and is a key by that.
        for name in ("translate", "align"):
            some = [request for request in requests if self._name_for(request) == name]
            outcomes |= zip(some, self._run(name, some, **flags), strict=True)
        score = functools.partial(self._run, "score") if self.supports_scores else None
        return as_results(one, placed(outcomes, score))

    def _name_for(self, request):
        is_aligned = request.source.needs_alignment and self.supports_alignment
        return "align" if is_aligned else "translate"

    def align(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> Alignment | Results:
        """The attention of each token of a translation over the tokens of its source.

        For a Transformer, it is the cross-attention of its `alignment_head`, or, without one, the
        mean of those of the last decoder block. If both sides have the same number of lines, they
        are aligned line by line. Each line, and each segment of the translator's own translation,
        ends with the end token, and attends only to its own source.

        Args:
            source: A str or a list of str.
            target: Of the same type, a translation of each; None or "" for the translator's own.
            source_language, target_language: As in a call.

        Returns:
            For a str an `Alignment`: the pieces of source and target, two lists of str, and a
            float32 NumPy array `[target_pieces, source_pieces]` whose rows sum to 1. For a list
            `Results` of such. A text is refused if a line is too long.

        Raises:
            ValueError: As by `hypotheses`, or if the model has no attention.

        Example:

        >>> pieces, target_pieces, attention = translator.align("O livro.")  # doctest: +SKIP
        """
        sides = {"source": source, "target": target}
        return self._answers("align", _as_alignment, source_language, target_language, **sides)

    def score(
        self,
        sources: str | Iterable[str],
        targets: str | Iterable[str],
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> Score | Results:
        """Scores given translations: how probable they are under the model.

        If both sides have the same number of lines, the lines are scored separately and the
        log-probabilities are added up. The arguments are those of `align`; targets must be given.

        Returns:
            For a str a `Score`, for a list `Results`. A text is refused if a line is too long, or
            if the model's probabilities are not finite.

        Example:

        >>> translator.score("O livro.", "The book.").perplexity  # doctest: +SKIP
        """
        sides = {"sources": sources, "targets": targets}
        return self._answers("score", _as_score, source_language, target_language, **sides)

    def align_words(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str],
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> np.ndarray | Results:
        """The word alignment of given translations, from the attention that `align` gives.

        Words are what white space separates. Each target word is linked to the source word that it
        attends to most, if that has more than a quarter of its attention: on average over its
        pieces, on all pieces of that word. The arguments are those of `align`.

        Returns:
            For a str an int32 NumPy array `[links, 2]`, the source's and the target's index of each
            link, from 0; for a list `Results` of such. A text is refused if a line is too long.

        Example:

        >>> translator.align_words("O livro é bom.", "The book is good.")  # doctest: +SKIP
        """
        sides = {"source": source, "target": target}
        return self._answers("align", _as_links, source_language, target_language, **sides)

    def _answers(self, name, as_result, source_language, target_language, **columns) -> Any:
        """The results of `align` or `score`, made of the outputs for a request and the request."""
        if name == "align" and not self.supports_alignment:
            raise InputError("The model has no attention to align by.")
        if name == "score" and not self.supports_scores:
            raise InputError(
                "This export has no signature `score`: export the run again, or use the run folder."
            )
        one, requests = self._requests(columns, source_language, target_language)
        outcomes = [
            row if isinstance(row, str) else as_result(by_hypothesis(row)[0], request)
            for row, request in zip(self._run(name, requests), requests, strict=True)
        ]
        return as_results(one, outcomes)

    def _requests(
        self, columns, source_language, target_language, glossary=None, markup=None
    ) -> tuple[bool, list[Request]]:
        """A request for each text; and before, True if it is one text, a str.

        The columns are the texts and what is given of translations, by their names in errors.
        """
        one, (texts, others) = as_columns(columns)
        given = source_language, target_language
        languages = [self._languages(side, given[side], len(texts)) for side in (0, 1)]
        sources, field = [None] * len(texts), "target"
        if "texts" in columns:
            sources, field = self._sources(texts, glossary, markup), "prefix"
        rows = zip(texts, *languages, sources, others, strict=True)
        return one, [Request(*row, **{field: other}) for *row, other in rows]

    def _languages(self, side, given, number):
        """The codes of `number` texts; Nones if there is no choice."""
        name = LANGUAGES[side]
        default = getattr(self, name)
        codes = [code or default for code in for_each(name, given, number, str, "a code")]
        for code in {*codes} or {default}:
            check_language(name, code, self._codes[side])
        return codes

    def _set_defaults(self, languages, pair, codes, glossary):
        """Sets what calls need not give; and the languages, those of a shortlist's `pair` alone."""
        self.languages = pair or languages
        self._codes = [[code] for code in pair] or [self.languages] * 2
        for name, code, known in zip(LANGUAGES, codes, self._codes, strict=True):
            if code is not None:
                check_language(name, code, known)
            setattr(self, name, code)
        self._check_glossary(glossary)
        self.glossary = glossary

    def _sources(self, texts, glossary, markup):
        """The `Source` of each text."""
        marked = any(getattr(text, "elements", ()) for text in texts)
        if (marked or markup is not None) and not self.supports_alignment:
            given = "A text with inline elements" if marked else f"markup={markup!r}"
            raise InputError(f"{given} needs a model with attention, to place the elements by.")
        if markup not in ("html", None):
            raise InputError(f"markup must be 'html', or None for plain text. Received: {markup!r}")
        can_place = self.supports_alignment or self.supports_scores
        kept = self.options.keep if can_place else ()
        sources = []
        glossaries = for_each("glossary", glossary, len(texts), Glossary, _GLOSSARY)
        for text, own in zip(texts, glossaries, strict=True):
            terms = self.glossary if own is None else own
            self._check_glossary(terms)
            traits = self.reads_terms, self.trusted_attention
            sources.append(Source(text, terms, kept, markup, *traits))
        return sources

    def _check_asked(self, prefixes, **flags):
        """Refuses flags that are no bool, and what the translator does not give."""
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise InputError(f"{name} must be True or False. Received: {name}={flag!r}")

    def _check_glossary(self, glossary):
        """Refuses what is no glossary, and one whose terms could not be placed."""
        if glossary is not None and not isinstance(glossary, Glossary):
            raise InputError(f"glossary must be {_GLOSSARY}. Received: {type(glossary).__name__}")
        if glossary is not None and not (self.supports_scores or self.supports_alignment):
            raise InputError(
                "This export takes no glossary: it has neither of the signatures align and score, "
                "by which terms are placed. Export the run again, or use the run folder."
            )

    def _run(self, name, requests, **flags) -> list[dict[str, np.ndarray] | str]:
        """The outputs of a function of texts for each request, or why it is refused."""
        limit = self.options.max_line_bytes
        fine = [request for request in requests if request.longest_line <= limit]
        columns = {"text": [request.read for request in fine]}
        if name != "translate":
            columns["target"] = [request.target for request in fine]
        if any(request.prefix for request in fine):
            columns["prefix"] = [request.prefix for request in fine]
        if self.languages:
            columns |= {side: [getattr(request, side) for request in fine] for side in LANGUAGES}
        rows = iter([])
        if fine:  # Else there is nothing to trace a function for.
            function = self._function(name, columns, **flags)
            rows = iter(run_in_batches(function, columns, self.on_batch))
        return [
            as_outcome(next(rows))
            if request.longest_line <= limit
            else f"a line of {request.longest_line:,} bytes is longer than max_line_bytes={limit}: "
            "split it into lines."
            for request in requests
        ]

    @abc.abstractmethod
    def _function(self, name, columns, **flags) -> Callable[..., dict[str, np.ndarray]]:
        """`translate`, `score` or `align` of columns of UTF-8, by their names: lists of bytes."""


def _as_alignment(row, _):
    return as_alignment(row)


def _as_score(row, _):
    return Score(float(np.sum(row["log_probs"])), as_pieces(row))


def _as_links(row, request):
    """The links of words, from the outputs of `align` for a request."""
    pieces, target_pieces, attention = as_alignment(row)
    words = words_of_pieces(request.text.split(), pieces)
    return attention_links(attention, words, words_of_pieces(request.target.split(), target_pieces))
