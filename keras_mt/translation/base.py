"""The base class of all translators from strings to strings.

It does not import Keras, which takes seconds: the command that runs an export needs none.
"""

import abc
import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.options import check_language
from keras_mt.text.glossary import EXPECTED, Glossary, check_glossary
from keras_mt.text.source import Source
from keras_mt.translation.batches import (
    as_list,
    check_string_tensors,
    chosen,
    encoded,
    for_each,
    utf8,
)
from keras_mt.translation.results import (
    Hypothesis,
    Results,
    as_alignment,
    as_falls,
    as_hypothesis,
    as_pieces,
)

LANGUAGES = "source_language", "target_language"
# A language code for all texts, or one code per text; None for the default.
Codes = str | Iterable[str] | None
# A glossary for all texts, or one per text; None for the default.
Glossaries = Glossary | Iterable[Glossary | None] | None


class BaseTranslator(abc.ABC):
    """A translator: callable on a str, a list of str or a string tensor.

    `languages` are empty if there is no choice. `kept_kinds` are the kinds of spans that
    translations repeat as they are. `reads_terms` says whether the model was trained on sources
    with terms, and `trusted_attention` whether its attention is that of a head that was trained or
    chosen to align words.
    """

    n_best: int
    kept_kinds: Sequence[str] = ()
    reads_terms: bool = False
    trusted_attention: bool = False
    gives_confidence: bool = True
    glossary: Glossary | None = None
    languages: Sequence[str] = ()
    source_language: str | None = None
    target_language: str | None = None
    max_line_bytes: int | None = None
    _scores: bool = True  # Whether it scores given translations.
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
            markup: "html" if the texts are fragments of HTML (see `keras_mt.text.Source`): their
                plain texts are translated, and the elements put around what the words became.
                None for plain texts.

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
        for name, flag in (("token_scores", token_scores), ("confidence", confidence)):
            if flag not in (False, True):
                raise InputError(f"{name} must be True or False. Received: {name}={flag!r}")
        one, columns = self._lists(
            {"texts": texts, "prefixes": prefixes}, source_language, target_language
        )
        encoded(**columns)
        sources = self._sources(columns["texts"], glossary, markup)

        columns["texts"] = [source.text for source in sources]
        found = self._hypotheses(sources, token_scores, confidence, **columns)
        return self._results(found, self._as_result, one, columns)

    def _as_result(self, hypotheses, **inputs):
        return hypotheses or self._why_refused(**inputs)

    def _sources(self, texts, glossary, markup=None):
        """The `Source` of each text."""
        marked = any(getattr(text, "elements", ()) for text in texts)
        if (marked or markup is not None) and not self.aligns:
            given = "A text with inline elements" if marked else f"markup={markup!r}"
            raise InputError(f"{given} needs a model with attention, to place the elements by.")
        if markup not in ("html", None):
            raise InputError(f"markup must be 'html', or None for plain text. Received: {markup!r}")
        options = self.kept_kinds, markup, self.reads_terms, self.trusted_attention
        sources = []
        glossaries = for_each("glossary", glossary, len(texts), Glossary, EXPECTED)
        for text, own in zip(texts, glossaries, strict=True):
            terms = self.glossary if own is None else own
            self._check_glossary(terms)
            sources.append(Source(text, terms, *options))
        return sources

    def _check_glossary(self, glossary):
        """Refuses what is no glossary, and one that could not be heeded."""
        check_glossary(glossary)

    def _hypotheses(self, sources, token_scores=False, confidence=False, **columns):
        """The hypotheses of each source, none of one that is refused."""
        prefixes = columns.get("prefixes", [""] * len(sources))
        languages = {name: columns[name] for name in LANGUAGES if name in columns}
        columns["texts"] = [
            "" if source.passes and not prefix else source.text
            for source, prefix in zip(sources, prefixes, strict=True)
        ]
        found = {}  # The outputs for each hypothesis of each source.
        for attention in (False, True):
            places = [i for i, source in enumerate(sources) if source.needs_alignment == attention]
            rows = self._search(token_scores, confidence, attention, **chosen(columns, places))
            found |= zip(places, rows, strict=True)
        hypotheses = [list(map(as_hypothesis, found[i])) for i in range(len(sources))]
        # What is placed: for each hypothesis its alignment, and the texts that it is scored by.
        drafts = []
        for i, source in enumerate(sources):
            for hypothesis, row in zip(hypotheses[i], found[i], strict=True):
                if not source.is_plain:
                    alignment = as_alignment(row)
                    probes = source.probes(hypothesis.text, alignment)
                    texts = [source.text, *probes] if probes and self._scores else []
                    drafts.append((i, hypothesis, alignment, texts))
        scored = {}
        if asked := [(i, text, draft.text) for i, draft, _, texts in drafts for text in texts]:
            places, texts, targets = zip(*asked, strict=True)
            rows = self._run("score", texts=texts, target=targets, **chosen(languages, places))
            scored = dict(zip(asked, map(as_pieces, rows), strict=True))
        placed = collections.defaultdict(dict)
        for i, draft, alignment, texts in drafts:
            falls = as_falls(alignment, [scored[i, text, draft.text] for text in texts])
            text, spans = sources[i].translated(draft.text, *falls, prefixes[i])
            # Of those that are equal now the first counts.
            placed[i].setdefault(text, draft._replace(text=text, placed=spans))
        return [[*placed[i].values()] or several for i, several in enumerate(hypotheses)]

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
        lists = {"source": lists["source"], "target": [""] * len(lists["source"])} | lists
        return self._results(self._run("align", **lists), self._as_alignment, one, lists)

    @abc.abstractmethod
    def _run(self, name, **columns) -> list[dict[str, Any]]:
        """The outputs of the graph's `align` or `score` for each text, as of `run_in_batches`."""

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

    def _results(self, rows, as_result, one, lists) -> Any:
        """`Results` for what `_lists` returned, or the result of the one text.

        `as_result` makes of a text's outputs and its inputs a result, or a str that says why the
        text is refused.
        """
        results, refusals = [], {}
        for i, row in enumerate(rows):
            result = as_result(row, **{name: column[i] for name, column in lists.items()})
            if isinstance(result, str):
                result, refusals[i] = None, result
            results.append(result)
        if one and refusals:
            raise InputError(f"The text is refused: {refusals[0]}")
        return results[0] if one else Results(results, refusals)

    def _tensor_translations(self, texts, prefixes, glossary, languages):
        """The translations of a tensor of texts, `[batch, n_best]`."""
        if not isinstance(glossary, Glossary | None):
            raise InputError("For a tensor of texts, glossary must be one Glossary for all.")
        if not tf.executing_eagerly():
            if glossary or self.glossary:
                raise InputError(
                    "A tf.function or a tf.data.Dataset takes no glossary, since terms are placed "
                    "in Python: leave it out, or call the translator outside, with a list of str."
                )
            return self._translations(texts, prefixes, **languages)
        columns = {"texts": texts, "prefixes": prefixes, **languages}
        columns = {
            name: [text.decode("utf-8", "replace") for text in column.numpy()]
            for name, column in columns.items()
            if column is not None
        }
        found = self._hypotheses(self._sources(columns["texts"], glossary), **columns)
        texts = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]
        ragged = tf.ragged.constant(texts, tf.string, ragged_rank=1)
        return ragged.to_tensor("", (None, self.n_best))

    @abc.abstractmethod
    def _search(self, token_scores, confidence, attention, **columns) -> list[list[dict[str, Any]]]:
        """For each text the outputs of a search for each hypothesis, as of `by_hypothesis`.

        With `attention` they have those of `align` besides, if the model has any.
        """

    def _why_refused(self, texts, prefixes=None, **languages) -> str:
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
    def _translations(self, texts, prefixes=None, **languages): ...

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
            codes = for_each(name, given, number, str, "a code")
            columns[name] = [code or getattr(self, name) for code in codes]
            for code in {*columns[name]} or {getattr(self, name)}:
                self._check_language(name, code)
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
