"""The base class of all translators from strings to strings; without TensorFlow."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from keras_mt.errors import InputError
from keras_mt.options import TranslationOptions, check_language
from keras_mt.text.glossary import EXPECTED, Glossary, check_glossary
from keras_mt.text.source import Alignment, Source
from keras_mt.translation.batches import run_in_batches
from keras_mt.translation.placing import placed
from keras_mt.translation.requests import Request, as_columns, for_each, is_tensor
from keras_mt.translation.results import (
    Hypothesis,
    Results,
    as_alignment,
    as_outcome,
    as_results,
    as_str,
    by_hypothesis,
)

LANGUAGES = "source_language", "target_language"
# A language code for all texts, or one code per text; None for the default.
Codes = str | Iterable[str] | None
# A glossary for all texts, or one per text; None for the default.
Glossaries = Glossary | Iterable[Glossary | None] | None


class BaseTranslator(abc.ABC):
    """A translator: callable on a str, a list of str or a string tensor.

    `options` are its `TranslationOptions`, and `languages` those of the model, empty if there is no
    choice. `reads_terms` says whether the model was trained on sources with terms, and
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
    _pair: Sequence[str] = ()  # The languages of its shortlist, the only possible ones.

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
        results = self.hypotheses(texts, **columns)
        if one := isinstance(texts, str):
            results = Results([results], {})
        for i, reason in results.refusals.items():
            raise InputError(f"texts[{i}] is refused: {reason}")
        translations = [[hypothesis.text for hypothesis in several] for several in results]
        if self.options.n_best == 1:
            translations = [several[0] for several in translations]
        return translations[0] if one else translations

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
        Scores, tokens and confidence are those before that. Hypotheses that are equal then are
        listed once.

        An export takes no prefixes and gives no token scores. It gives a confidence only if it was
        exported with `confidence=True`.

        Args:
            texts: A str or a list of str. Those that are a `keras_mt.text.Fragment` have inline
                elements, which are put around what the words became: so are the hypotheses' texts.
            prefixes: What each translation must begin with, of the same type, or None. A text that
                is translated in parts (lines, sentences) takes that of its first part.
            token_scores: Whether to fill in the hypotheses' `tokens`.
            source_language, target_language: As in a call.
            confidence: Whether to fill in `mean_log_prob`, `worst_token` and `warnings`.
            glossary: As in a call.
            markup: "html" if texts that are plain str are fragments of HTML (see
                `keras_mt.text.Source`): their plain texts are translated, and the elements put
                around what the words became. None for plain texts.

        Returns:
            For a str a list of `Hypothesis`, best first (fewer than `n_best` if the search finds no
            more); for a list `Results` of such lists. A text is refused if a line is too long, if
            its prefix is longer than the model's limit, if both it and its prefix have several
            lines or sentences, or if the model's probabilities are not finite.

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
        outcomes = {}  # Each request has a `Source` of its own, and is a key by that.
        for with_attention in (False, True):
            some = [x for x in requests if x.source.needs_alignment == with_attention]
            search = self._search_and_align if with_attention else self._search
            outcomes |= zip(some, search(some, **flags), strict=True)
        score = functools.partial(self._run, "score") if self.supports_scores else None
        return as_results(one, placed(requests, [outcomes[x] for x in requests], score))

    def align(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> Alignment | Results:
        """The attention of each token of a translation over the tokens of its source.

        For a Transformer, it is the cross-attention of its `alignment_head`, or, without one, the
        mean of those of the last decoder block. Without a target, the source is translated in
        segments, as by a call. If both sides have the same number of lines, they are aligned line
        by line. Each segment or line ends with the end token, and attends only to its own source.

        Args:
            source: A str or a list of str.
            target: Of the same type, a translation of each; None or "" for the translator's own.
            source_language, target_language: As in a call.

        Returns:
            For a str the pieces of the source and of the target, two lists of str, each with the
            end token last, and a float32 NumPy array `[target_pieces, source_pieces]` whose rows
            sum to 1. For a list `Results` of such tuples. A text is refused if a line is too long.

        Raises:
            ValueError: As by `hypotheses`, or if the model has no attention.

        Example:

        >>> pieces, target_pieces, attention = translator.align("O livro.")  # doctest: +SKIP
        """
        sides = {"source": source, "target": target}
        return self._answers("align", _as_alignment, source_language, target_language, **sides)

    def _answers(self, name, as_result, source_language, target_language, **columns) -> Any:
        """The results of `align` or `score`, made of the outputs for a request and the request."""
        if name == "align" and not self.supports_alignment:
            raise InputError("The model has no attention to align by.")
        one, requests = self._requests(columns, source_language, target_language)
        rows = zip(self._run(name, requests), requests, strict=True)
        outcomes = [row if isinstance(row, str) else as_result(row, x) for row, x in rows]
        return as_results(one, outcomes)

    def _requests(
        self, columns, source_language, target_language, glossary=None, markup=None
    ) -> tuple[bool, list[Request]]:
        """A request for each text; and before, True if it is one text, a str.

        The columns are the texts and what is given of translations, by their names in errors.
        """
        one, (texts, targets) = as_columns(columns)
        languages = [
            self._languages(name, given, len(texts))
            for name, given in zip(LANGUAGES, (source_language, target_language), strict=True)
        ]
        sources = [None] * len(texts)
        if "texts" in columns:
            sources = self._sources(texts, glossary, markup)
        return one, list(map(Request, texts, targets, *languages, sources))

    def _languages(self, name, given, number):
        """The codes of `number` texts; Nones if there is no choice."""
        codes = for_each(name, given, number, str, "a code")
        codes = [code or getattr(self, name) for code in codes]
        for code in {*codes} or {getattr(self, name)}:
            self._check_language(name, code)
        return codes

    def _check_language(self, name, code):
        only = self._pair[LANGUAGES.index(name)] if self._pair else None
        if only and code not in (None, only):
            raise InputError(
                f"{name} must be {only!r}: the shortlist was learned for {' to '.join(self._pair)} "
                f"alone. Leave the shortlist out for other languages. Received: {name}={code!r}"
            )
        check_language(name, code, self.languages)

    def _set_languages(self, languages, source_language, target_language, pair=()):
        """Sets the known languages, the default ones, and a shortlist's, the only possible ones."""
        self.languages, self._pair = pair or languages, pair
        for name, code in zip(LANGUAGES, (source_language, target_language), strict=True):
            if code is not None:
                self._check_language(name, code)
            setattr(self, name, code)

    def _sources(self, texts, glossary, markup):
        """The `Source` of each text."""
        marked = any(getattr(text, "elements", ()) for text in texts)
        if (marked or markup is not None) and not self.supports_alignment:
            given = "A text with inline elements" if marked else f"markup={markup!r}"
            raise InputError(f"{given} needs a model with attention, to place the elements by.")
        if markup not in ("html", None):
            raise InputError(f"markup must be 'html', or None for plain text. Received: {markup!r}")
        kept = self.options.keep if self.supports_alignment or self.supports_scores else ()
        sources = []
        glossaries = for_each("glossary", glossary, len(texts), Glossary, EXPECTED)
        for text, own in zip(texts, glossaries, strict=True):
            terms = self.glossary if own is None else own
            self._check_glossary(terms)
            sources.append(
                Source(text, terms, kept, markup, self.reads_terms, self.trusted_attention)
            )
        return sources

    def _check_asked(self, prefixes, **flags):
        """Refuses flags that are no bool, and what the translator does not give."""
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise InputError(f"{name} must be True or False. Received: {name}={flag!r}")

    def _check_glossary(self, glossary):
        """Refuses what is no glossary, and one that could not be heeded."""
        check_glossary(glossary)

    def _search(self, requests, **flags) -> list[list[dict[str, Any]] | str]:
        """The outputs of a search for each hypothesis of requests, or why one is refused."""
        rows = self._run("translate", requests, **flags)
        return [row if isinstance(row, str) else by_hypothesis(row) for row in rows]

    def _search_and_align(self, requests, **flags) -> list[list[dict[str, Any]] | str]:
        """The outputs of `_search` and those of `align`, if the model has attention."""
        if not self.supports_alignment:
            return self._search(requests, **flags)
        # Without a target `align` finds the best translation, and aligns it segment by segment,
        # which a given target may not be: it may have more sentences, or be over the limit.
        alone = [x for x in requests if self.options.n_best == 1 and not x.target]
        own = dict(zip(alone, self._run("align", alone), strict=True))
        one_call = len(own) == len(requests) and not any(flags.values())
        if one_call:
            return [row if isinstance(row, str) else [row] for row in own.values()]
        outcomes = self._search(requests, **flags)
        found = [
            (request, row)
            for request, rows in zip(requests, outcomes, strict=True)
            for row in ([] if isinstance(rows, str) else rows)
        ]
        given = []
        for request, row in found:
            alignment = own.get(request, "")
            if isinstance(alignment, str) or alignment["translations"] != row["translations"]:
                given.append((request, row))
            else:
                row.update({**alignment, **row})
        # For a target of "", `align` would find a translation itself.
        targets = [as_str(row["translations"]) or " " for _, row in given]
        asked = [
            dataclasses.replace(request, target=target)
            for (request, _), target in zip(given, targets, strict=True)
        ]
        for (_, row), alignment in zip(given, self._run("align", asked), strict=True):
            if not isinstance(alignment, str):
                row.update({**alignment, **row})
        return outcomes

    def _run(self, name, requests, **flags) -> list[dict[str, np.ndarray] | str]:
        """The outputs of a function of texts for each request, or why it is refused."""
        limit = self.options.max_line_bytes
        fine = [request for request in requests if request.longest_line <= limit]
        columns = {"text": [request.read for request in fine]}
        targets = [request.target for request in fine]
        if name != "translate" or any(targets):
            columns["prefix" if name == "translate" else "target"] = targets
        if self.languages:
            columns |= {side: [getattr(request, side) for request in fine] for side in LANGUAGES}
        rows = iter(run_in_batches(self._function(name, columns, **flags), columns) if fine else [])
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
