"""The base class of all translators from strings to strings.

It does not import Keras, which takes seconds: the command that runs an export needs none.
"""

import abc
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.options import check_language
from keras_mt.text.glossary import EXPECTED, Glossary, check_glossary
from keras_mt.text.markup import Fragment
from keras_mt.text.terms import has_kept
from keras_mt.translation.batches import as_list, check_string_tensors, encoded, utf8
from keras_mt.translation.fragments import protected_lines, put_into
from keras_mt.translation.results import AssessedHypothesis, Hypothesis, Results, as_hypotheses

LANGUAGES = "source_language", "target_language"
# A language code for all texts, or one code per text; None for the default.
Codes = str | Iterable[str] | None
# A glossary for all texts, or one per text; None for the default.
Glossaries = Glossary | Iterable[Glossary | None] | None


class BaseTranslator(abc.ABC):
    """A translator: callable on a str, a list of str or a string tensor.

    `languages` are empty if there is no choice. `kept_kinds` are the kinds of spans that
    translations repeat as they are.
    """

    n_best: int
    kept_kinds: Sequence[str] = ()
    gives_confidence: bool = True
    glossary: Glossary | None = None
    languages: Sequence[str] = ()
    source_language: str | None = None
    target_language: str | None = None
    max_line_bytes: int | None = None
    _pair: Mapping[str, str] | None = None  # The languages of its shortlist.

    @overload
    def __call__(
        self,
        texts: str,
        prefixes: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        glossary: Glossary | None = None,
        markup: str | None = None,
    ) -> str | list[str]: ...

    @overload
    def __call__(
        self,
        texts: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        source_language: str | tf.Tensor | None = None,
        target_language: str | tf.Tensor | None = None,
        glossary: Glossary | None = None,
    ) -> tf.Tensor: ...

    @overload
    def __call__(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
        glossary: Glossaries = None,
        markup: str | None = None,
    ) -> list[str] | list[list[str]]: ...

    def __call__(
        self,
        texts: str | Iterable[str] | tf.Tensor,
        prefixes: str | Iterable[str] | tf.Tensor | None = None,
        source_language: Codes | tf.Tensor = None,
        target_language: Codes | tf.Tensor = None,
        glossary: Glossaries = None,
        markup: str | None = None,
    ) -> str | list[str] | list[list[str]] | tf.Tensor:
        languages = dict(zip(LANGUAGES, (source_language, target_language), strict=True))
        if isinstance(texts, tf.Tensor):
            if markup is not None:
                raise InputError(
                    "texts must be a str or a list of str where markup is given. "
                    f"Received: {texts!r}"
                )
            columns = {} if prefixes is None else {"prefixes": prefixes}
            check_string_tensors(texts, **columns)
            languages = self._language_tensors(texts, **languages)
            return self._tensor_translations(texts, prefixes, glossary, languages)
        results = self.hypotheses(texts, prefixes, glossary=glossary, markup=markup, **languages)
        if one := isinstance(texts, str):
            results = Results([results], {})
        for i, reason in results.refusals.items():
            raise InputError(f"texts[{i}] is refused: {reason}")
        translations = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in results]
        if self.n_best == 1:
            translations = [texts[0] for texts in translations]
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
    ) -> list[Hypothesis | AssessedHypothesis] | Results:
        """The `n_best` translations of each text with their scores.

        An export takes no prefixes and gives no token scores. It gives a confidence only if it was
        exported with `confidence=True`, and then for texts without terms and kept spans alone.

        Args:
            texts: A str or a list of str.
            prefixes: What each translation must begin with, of the same type, or None. A text that
                is translated in parts (lines, sentences) takes that of its first part.
            token_scores: Whether to fill in the hypotheses' `tokens`.
            source_language, target_language: As in a call.
            confidence: Whether to return each as an `AssessedHypothesis`, where there is one.
            glossary: As in a call.
            markup: "html" if the texts are fragments of HTML (see `keras_mt.text.Fragment`): their
                plain texts are translated, and the elements put around what the words became.
                Scores and tokens are those of the plain texts. None for plain texts.

        Returns:
            For a str a list of `Hypothesis`, best first (fewer than `n_best` if the search finds no
            more); for a list `Results` of such lists. A text is refused if a line is too long, if
            its prefix is longer than the model's limit, if both it and its prefix have several
            lines or sentences, if a term of the glossary cannot be in its translation, or if the
            model's probabilities are not finite.

        Raises:
            ValueError: If a str is refused, an argument has the wrong type, lists differ in length,
                a language is unknown or missing, an export does not give what is asked for, or the
                texts have markup and the model has no attention to place it by.

        Example:

        >>> translator.hypotheses(["O livro."], token_scores=True)[0][0].tokens  # doctest: +SKIP
        """
        for name, flag in (("token_scores", token_scores), ("confidence", confidence)):
            if flag not in (False, True):
                raise InputError(f"{name} must be True or False. Received: {name}={flag!r}")
        one, columns = self._lists(
            {"texts": texts, "prefixes": prefixes}, source_language, target_language
        )
        fragments = []
        if markup is not None:
            fragments = self._fragments(columns["texts"], markup)
            columns["texts"] = [fragment.text for fragment in fragments]
        terms = self._with_protected(self._terms(columns["texts"], glossary, one), fragments)
        if terms is not None:
            columns["terms"] = terms
        search = functools.partial(self._search_by_terms, token_scores, confidence)

        def as_result(row, **inputs):
            return self._as_hypotheses(row) or self._why_refused(**inputs)

        results = self._results(search, as_result, one, columns)
        if fragments:
            languages = (columns.get(name) for name in LANGUAGES)
            put_into([results] if one else results, self, fragments, *languages)
        return results

    def _fragments(self, texts, markup):
        if not self.aligns:
            raise InputError(
                f"markup={markup!r} needs a model with attention, to place the elements by: leave "
                "markup out."
            )
        if markup != "html":
            raise InputError(f"markup must be 'html', or None for plain text. Received: {markup!r}")
        encoded(texts=texts)
        fragments = [Fragment(text) for text in texts]
        if any(fragment.has_markup for fragment in fragments):
            self.align([], [], [], [])  # An export then needs nothing besides, to translate.
        return fragments

    def _with_protected(self, terms, fragments):
        """The lines of terms, with what each fragment protects as a term that stays."""
        lines = [protected_lines(fragment) for fragment in fragments]
        if not any(lines):
            return terms
        try:
            self._check_takes_terms()
        except InputError:  # What its words become is replaced by it.
            return terms
        terms = terms or [""] * len(lines)
        return ["\n".join(filter(None, pair)) for pair in zip(terms, lines, strict=True)]

    @property
    @abc.abstractmethod
    def aligns(self) -> bool:
        """Whether the model has attention weights for `align`."""

    def align(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> tuple[list[str], list[str], np.ndarray] | Results:
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
        if not self.aligns:
            raise InputError("The model has no attention to align by.")
        columns = {"source": source, "target": target}
        one, lists = self._lists(columns, source_language, target_language)
        lists.setdefault("target", [""] * len(lists["source"]))
        return self._results(self._align, self._as_alignment, one, lists)

    @abc.abstractmethod
    def _align(self, source, target, **languages) -> list[dict[str, Any]]:
        """The outputs of the graph's `align` for each text, as of `run_in_batches`."""

    @abc.abstractmethod
    def _as_alignment(self, row, source, **_) -> tuple | str:
        """What `align` returns for a text, or why it is refused."""

    def _lists(self, columns, source_language, target_language):
        """Whether columns of texts are of one text, a str; and lists of them and their languages.

        Columns but the first may be None, and are left out.
        """
        first, *_ = columns
        one, lists = isinstance(columns[first], str), {}
        for name, column in columns.items():
            if column is None and name != first:
                continue
            if not one:
                expected = "a str or a list of str" if name == first else "a list of str"
                lists[name] = as_list(name, column, expected)
            elif isinstance(column, str):
                utf8(name, column)
                lists[name] = [column]
            else:
                raise InputError(
                    f"{name} must be a str, as {first} is. Received: {type(column).__name__}"
                )
        lists |= self._languages(len(lists[first]), source_language, target_language)
        return one, lists

    def _results(self, run, as_result, one, lists) -> Any:
        """`Results` for what `_lists` returned, or the result of the one text.

        `run` takes the lists by their names, and returns each text's outputs. `as_result` makes of
        these and the inputs a result, or a str that says why the text is refused.
        """
        results, refusals = [], {}
        for i, row in enumerate(run(**lists)):
            result = as_result(row, **{name: column[i] for name, column in lists.items()})
            if isinstance(result, str):
                result, refusals[i] = None, result
            results.append(result)
        if one and refusals:
            raise InputError(f"The text is refused: {refusals[0]}")
        return results[0] if one else Results(results, refusals)

    def _terms(self, texts, glossary, one):
        """The lines of the terms of each text; None for none. `one` glossary for `one` text."""
        glossary = self.glossary if glossary is None else glossary
        if glossary is None:
            return None
        self._check_takes_terms()
        if isinstance(glossary, Glossary):
            several = [glossary] * len(texts)
        else:
            given = as_list("glossary", glossary, f"{EXPECTED}, or a list of such")
            several = [self.glossary if g is None else g for g in given]
            if one or len(several) != len(texts):
                raise InputError(
                    "glossary must be a Glossary, or a list with one for each text. "
                    f"Received: {len(several)} for {len(texts)} texts"
                )
        for each in several:
            check_glossary(each)
        return [  # What is no str is refused with the other texts.
            each.lines(text) if each is not None and isinstance(text, str) else ""
            for each, text in zip(several, texts, strict=True)
        ]

    def _search_by_terms(self, token_scores, confidence, texts, terms=None, **columns):
        """As `_search`: only texts with a term or a kept span are searched with such."""
        in_bytes = encoded(texts=texts, **columns)[0]
        terms = [""] * len(texts) if terms is None else terms
        constrained = [bool(lines) for lines in terms]
        if self.kept_kinds and texts:
            found = has_kept(tf.constant(in_bytes), self.kept_kinds).numpy()
            constrained = [a or bool(b) for a, b in zip(constrained, found, strict=True)]
        rows = [None] * len(texts)
        for wanted in (False, True):
            chosen = [i for i, is_so in enumerate(constrained) if is_so == wanted]
            if not chosen and (wanted or texts):
                continue
            given = {"texts": texts, **columns, **({"terms": terms} if wanted else {})}
            given = {name: [column[i] for i in chosen] for name, column in given.items()}
            for i, row in zip(chosen, self._search(token_scores, confidence, **given), strict=True):
                rows[i] = row
        return rows

    def _tensor_translations(self, texts, prefixes, glossary, languages):
        """The translations of a tensor of texts."""
        glossary = self.glossary if glossary is None else glossary
        if glossary is not None:
            if not isinstance(glossary, Glossary):
                raise InputError("For a tensor of texts, glossary must be one Glossary for all.")
            self._check_takes_terms()
            if tf.executing_eagerly():
                lines = [glossary.lines(text.decode("utf-8", "replace")) for text in texts.numpy()]
                terms = tf.constant(lines, tf.string)
            else:
                terms = tf.fill(tf.shape(texts), "\n".join(term.line for term in glossary))
            return self._translations(texts, prefixes, terms, **languages)
        if not self.kept_kinds:
            return self._translations(texts, prefixes, **languages)
        return tf.cond(
            tf.reduce_any(has_kept(texts, self.kept_kinds)),
            lambda: self._translations(texts, prefixes, tf.fill(tf.shape(texts), ""), **languages),
            lambda: self._translations(texts, prefixes, **languages),
        )

    @abc.abstractmethod
    def _check_takes_terms(self) -> None:
        """Raises ValueError if the translator cannot translate with terms."""

    @abc.abstractmethod
    def _search(self, token_scores, confidence, **columns) -> list[dict[str, Any]]:
        """The outputs of a search for each text, as of `run_in_batches`."""

    def _as_hypotheses(self, row):
        return as_hypotheses(row)

    def _why_refused(self, texts, prefixes=None, terms=None, **languages) -> str:
        """Why a text has no translation."""
        return self._line_too_long(texts) or (
            "the model gives no finite probabilities. Has its training diverged?"
        )

    def _line_too_long(self, text) -> str | None:
        longest = max(map(len, text.encode().split(b"\n")))
        if self.max_line_bytes is None or longest <= self.max_line_bytes:
            return None
        return (
            f"a line of {longest:,} bytes is longer than max_line_bytes={self.max_line_bytes}: "
            "split it into lines."
        )

    @abc.abstractmethod
    def _translations(self, texts, prefixes=None, terms=None, **languages): ...

    def _set_languages(self, languages, source_language, target_language, pair=None):
        """Sets the known languages, the default ones, and a shortlist's, the only possible ones."""
        self.languages = languages
        self._pair = dict(zip(LANGUAGES, pair, strict=True)) if pair else None
        for name, code in zip(LANGUAGES, (source_language, target_language), strict=True):
            if code is not None:
                self._check_language(name, code)
            setattr(self, name, code)

    def _check_language(self, name, code):
        if self._pair and code is not None and code != self._pair[name]:
            raise InputError(
                f"{name} must be {self._pair[name]!r}: the shortlist was learned for "
                f"{' to '.join(self._pair.values())} alone. Leave the shortlist out for other "
                f"languages. Received: {name}={code!r}"
            )
        check_language(name, code, self.languages)

    def _languages(self, number, source_language, target_language) -> dict[str, list[str]]:
        """The codes of `number` texts, by their names in the graph; {} if there is no choice."""
        columns = {}
        for name, given in zip(LANGUAGES, (source_language, target_language), strict=True):
            one, default = given is None or isinstance(given, str), getattr(self, name)
            codes = [code or default for code in ([given] if one else as_list(name, given))]
            if not one and len(codes) != number:
                raise InputError(
                    f"{name} must be a code, or a list with one code for each text. "
                    f"Received: {len(codes)} for {number} texts"
                )
            for code in codes:
                self._check_language(name, code)
            columns[name] = codes * number if one else codes
        return columns if self.languages else {}

    def _language_tensors(self, texts, source_language, target_language) -> dict[str, tf.Tensor]:
        """As `_languages`, for a tensor of texts; tensors of codes are checked in the graph."""
        columns = {"source_language": source_language, "target_language": target_language}
        tensors = {n: x for n, x in columns.items() if isinstance(x, tf.Tensor)}
        check_string_tensors(texts, **tensors)
        valid = self._pair or dict.fromkeys(columns, *self.languages[:1])
        valid = {name: valid[name] for name in tensors if self.languages}
        codes = self._languages(1, **{**columns, **valid})
        tensors = {n: tf.where(x == "", getattr(self, n) or "", x) for n, x in tensors.items()}
        return {n: tensors.get(n, tf.fill(tf.shape(texts), code)) for n, (code,) in codes.items()}
