"""The base class of all translators from strings to strings, and batching of lists of texts.

It does not import Keras, which takes seconds: the command that runs an export needs none.
"""

import abc
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, overload

import numpy as np
import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.errors import InputError
from keras_mt.options import check_language
from keras_mt.text.terms import has_kept
from keras_mt.translation.fragments import parsed, protected_lines, put_into
from keras_mt.translation.glossary import Glossary

# The maximum texts of a batch, and bytes: those of its longest text times their number.
_BATCH_TEXTS = 256
_BATCH_BYTES = 64 * 512
_LEAST_BATCH = 32  # The minimum texts of a batch when several run side by side.
_LONG_LIST = 1024  # Texts for which a notebook shows a progress bar.

LANGUAGES = "source_language", "target_language"
# A language code for all texts, or one code per text; None for the default.
Codes = str | Iterable[str] | None
# A glossary for all texts, or one per text; None for the default.
Glossaries = Glossary | Iterable[Glossary | None] | None


class Hypothesis(NamedTuple):
    """A translation.

    Attributes:
        text: The translation, str.
        score: log_prob / length ** length_penalty, where the log-probability includes the
            `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, if asked for; else None.
            Tokens that were forced (a language, the end by `force_end`) have theirs too, which the
            score leaves out.

    Example:

    >>> Hypothesis("The book is on the table.", -0.05).text
    'The book is on the table.'
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None


class AssessedHypothesis(NamedTuple):
    """A translation with measures of confidence.

    They do not say how good the translation is: a model may be confident and wrong.

    Attributes:
        text: The translation, str.
        score: As in `Hypothesis`.
        tokens: As in `Hypothesis`.
        mean_log_prob: The mean log-probability of its tokens with the end, whatever the length
            penalty of the score.
        worst_token: The least probable piece and its log-probability; None for an empty
            translation.
        warnings: A tuple that may hold "loop", if a sequence of tokens repeats over and over, and
            none in the source does; and "length", if the longer of source and translation has more
            than twice the tokens of the shorter plus five. Each line, and each sentence that is
            translated by itself, is checked by itself.

    Example:

    >>> results = translator.hypotheses(["O livro."], confidence=True)  # doctest: +SKIP
    >>> results[0][0].mean_log_prob, results[0][0].warnings  # doctest: +SKIP
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None
    mean_log_prob: float
    worst_token: tuple[str, float] | None
    warnings: tuple[str, ...]

    @property
    def doubts(self) -> tuple[str, ...]:
        """The former name of `warnings`."""
        warnings.warn("`doubts` is called `warnings` now.", DeprecationWarning, stacklevel=2)
        return self.warnings


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


class BaseTranslator(abc.ABC):
    """A translator: callable on a str, a list of str or a string tensor.

    Attributes:
        languages: The codes of the languages that it translates between; empty if there is no
            choice.
        source_language, target_language: The default languages, or None.
        max_line_bytes: The maximum number of bytes of a line, or None.
        glossary: The default `Glossary`, or None.
    """

    glossary: Glossary | None = None
    languages: Sequence[str] = ()
    source_language: str | None = None
    target_language: str | None = None
    max_line_bytes: int | None = None
    _pair: Mapping[str, str] | None = None  # The languages of its shortlist.

    @property
    def gives_confidence(self) -> bool:
        """Whether `hypotheses` accepts `confidence=True`."""
        return True

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
            _check_string_tensors(texts, **columns)
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

        An export takes no prefixes and gives no token scores, and a confidence only if it was
        exported with `confidence=True`.

        Args:
            texts: A str or a list of str.
            prefixes: What each translation must begin with, of the same type, or None. A text that
                is translated in parts (lines, sentences) takes that of its first part.
            token_scores: Whether to fill in the hypotheses' `tokens`.
            source_language, target_language: As in a call.
            confidence: Whether to return each as an `AssessedHypothesis`.
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
        given = {
            "prefixes": prefixes,
            "token_scores": token_scores,
            "source_language": source_language,
            "target_language": target_language,
            "confidence": confidence,
        }
        if markup is not None:
            return self._of_fragments(texts, markup, glossary, **given)
        return self._hypotheses(texts, self._terms(texts, glossary), **given)

    def _hypotheses(
        self,
        texts: str | list[str],
        terms: str | list[str] | None,
        *,
        prefixes: str | Iterable[str] | None = None,
        token_scores: bool = False,
        source_language: Codes = None,
        target_language: Codes = None,
        confidence: bool = False,
    ) -> list[Hypothesis | AssessedHypothesis] | Results:
        """As `hypotheses`, but with the lines of the terms of each text, those of a glossary."""
        search = functools.partial(self._search_by_terms, token_scores, confidence)

        def as_result(row, **inputs):
            return self._as_hypotheses(row) or self._why_refused(**inputs)

        columns = {"texts": texts, "prefixes": prefixes, "terms": terms}
        return self._results(search, as_result, columns, source_language, target_language)

    def _of_fragments(self, texts, markup, glossary, source_language, target_language, **given):
        """As `hypotheses`, of texts with markup."""
        languages = [
            code if code is None or isinstance(code, str) else as_list(name, code)
            for name, code in zip(LANGUAGES, (source_language, target_language), strict=True)
        ]
        if not self.aligns:
            raise InputError(
                f"markup={markup!r} needs a model with attention, to place the elements by: leave "
                "markup out."
            )
        if one := isinstance(texts, str):
            utf8("texts", texts)
        texts = [texts] if one else as_list("texts", texts, "a str or a list of str")
        for i, text in enumerate(texts):
            utf8(f"texts[{i}]", text)
        fragments = parsed(texts, markup)
        plain = [fragment.text for fragment in fragments]
        if any(fragment.has_markup for fragment in fragments):
            self.align([], [])  # An export then needs nothing besides, to translate.
        if one:
            terms = self._terms(plain[0], glossary)
            terms = terms if terms is None else [terms]
        else:
            terms = self._terms(plain, glossary)
        terms = self._with_protected(terms, fragments)
        if one:
            plain, terms = plain[0], terms and terms[0]
        given |= dict(zip(LANGUAGES, languages, strict=True))
        results = self._hypotheses(plain, terms, **given)
        put_into([results] if one else results, self, fragments, *languages)
        return results

    def _with_protected(self, terms, fragments):
        """The lines of terms, with what each fragment protects as a term that stays."""
        lines = [protected_lines(fragment) for fragment in fragments]
        try:
            self._check_takes_terms()
        except InputError:  # What its words become is replaced by it.
            return terms
        if not any(lines):
            return terms
        terms = terms or [""] * len(lines)
        return ["\n".join(filter(None, pair)) for pair in zip(terms, lines, strict=True)]

    @property
    @abc.abstractmethod
    def aligns(self) -> bool:
        """Whether the model has attention weights for `align`."""

    @abc.abstractmethod
    def align(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> tuple[list[str], list[str], np.ndarray] | Results:
        """The attention of each token of a translation over the tokens of its source."""

    def _results(self, run, as_result, columns, source_language, target_language) -> Any:
        """`Results` for lists of texts, or the result of one text.

        Args:
            run: Takes lists of str, the columns and the languages, by their names; returns the
                outputs for each text, as `run_in_batches` does.
            as_result: Takes the outputs and the inputs of a text; returns its result, or a str that
                says why it is refused.
            columns: All a str, or all lists of str, by their names; others than the first may be
                None, and are left out.
            source_language, target_language: As in a call.

        Raises:
            ValueError: If a column is neither, or not as the first one; or one text is refused.
        """
        first, *others = columns
        one, lists = isinstance(columns[first], str), {}
        for name in [first, *(other for other in others if columns[other] is not None)]:
            if not one:
                expected = "a str or a list of str" if name == first else "a list of str"
                lists[name] = as_list(name, columns[name], expected)
            elif isinstance(columns[name], str):
                utf8(name, columns[name])
                lists[name] = [columns[name]]
            else:
                raise InputError(
                    f"{name} must be a str, as {first} is. Received: {type(columns[name]).__name__}"
                )
        lists |= self._languages(len(lists[first]), source_language, target_language)
        results, refusals = [], {}
        for i, row in enumerate(run(**lists)):
            result = as_result(row, **{name: column[i] for name, column in lists.items()})
            if isinstance(result, str):
                result, refusals[i] = None, result
            results.append(result)
        if one and refusals:
            raise InputError(f"The text is refused: {refusals[0]}")
        return results[0] if one else Results(results, refusals)

    def _terms(self, texts, glossary, name="texts"):
        """The lines of the terms of texts: a str or a list of str, as these are; None for none."""
        one = isinstance(texts, str)
        glossary = self.glossary if glossary is None else glossary
        if glossary is None:
            return None
        self._check_takes_terms()
        if isinstance(glossary, Glossary):
            several = [glossary] * (1 if one else len(as_list(name, texts)))
        else:
            several = [self.glossary if g is None else g for g in as_list("glossary", glossary)]
            if one or len(several) != len(texts):
                raise InputError(
                    "glossary must be a Glossary, or a list with one for each text. "
                    f"Received: {len(several)} for {1 if one else len(texts)} texts"
                )
        for each in several:
            if not isinstance(each, (Glossary, type(None))):
                raise InputError(f"glossary must be a keras_mt.Glossary. Received: {each!r}")
        lines = [
            each.lines(text) if each is not None and isinstance(text, str) else ""
            for each, text in zip(several, [texts] if one else texts, strict=True)
        ]
        return lines[0] if one else lines

    def _search_by_terms(self, token_scores, confidence, texts, terms=None, **columns):
        """As `_search`: only texts with a term or a kept span are searched with such."""
        terms = [""] * len(texts) if terms is None else terms
        constrained = [bool(lines) for lines in terms]
        if self.kept_kinds and texts:
            raw = [t.encode("utf-8", "replace") if isinstance(t, str) else b"" for t in texts]
            found = has_kept(tf.constant(raw), self.kept_kinds).numpy()
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

    @property
    @abc.abstractmethod
    def n_best(self) -> int:
        """The number of translations of each text."""

    @property
    @abc.abstractmethod
    def kept_kinds(self) -> Sequence[str]:
        """The kinds of spans that translations repeat as they are."""

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
        """The codes of `number` texts, by their names in the graph; {} if there is no choice.

        Raises:
            ValueError: If a code is missing or unknown, or there are too many or too few.
        """
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
        _check_string_tensors(texts, **tensors)
        valid = self._pair or dict.fromkeys(columns, *self.languages[:1])
        valid = {name: valid[name] for name in tensors if self.languages}
        codes = self._languages(1, **{**columns, **valid})
        return {n: tensors.get(n, tf.fill(tf.shape(texts), code)) for n, (code,) in codes.items()}


def run_in_batches(
    function: Callable[..., dict[str, tf.Tensor]], **columns: Iterable[str]
) -> list[dict[str, Any]]:
    """Runs a function of string tensors `[batch]` over lists of str of any length.

    Texts of similar length are batched together, and outputs come back in the order of the texts.
    As many batches run side by side as there are cores: the matrix products of a decoding step are
    too small to gain much from several threads.

    Args:
        function: Function from string tensors `[batch]`, one for each column, to a dict of tensors
            or arrays `[batch, ...]`.
        **columns: Lists of str of the same length, under the names that messages use.

    Returns:
        For each text, a dict of its rows of the function's outputs, as NumPy arrays.

    Raises:
        ValueError: If a column is not a list of str that UTF-8 can encode, or the columns differ in
            length.
    """
    names = " and ".join(columns)
    columns = [
        [utf8(f"{name}[{i}]", text) for i, text in enumerate(texts)]
        for name, texts in columns.items()
    ]
    if len({len(texts) for texts in columns}) > 1:
        numbers = " and ".join(str(len(texts)) for texts in columns)
        raise InputError(f"{names} must have the same length. Received: {numbers} texts")
    lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    cores = _cores()
    most = min(_BATCH_TEXTS, max(_LEAST_BATCH, -(-len(order) // cores)))  # One for each core.
    batches = []
    while order:
        size = max(1, min(most, _BATCH_BYTES // max(1, lengths[order[0]])))
        batches.append(order[:size])
        order = order[size:]
    traced = isinstance(function, tf.types.experimental.PolymorphicFunction)
    if batches and traced and not tf.config.functions_run_eagerly():
        function = function.get_concrete_function()  # In this thread: Keras's settings are local.

    def run(batch):
        outputs = function(*(tf.constant([texts[i] for i in batch]) for texts in columns))
        return {name: np.asarray(tensor) for name, tensor in outputs.items()}

    rows = [None] * len(lengths)
    progress = _progress(len(lengths))
    with ThreadPoolExecutor(cores) as pool:
        # One batch needs no other thread.
        for batch, outputs in zip(
            batches, (pool.map if batches[1:] else map)(run, batches), strict=True
        ):
            for row, i in enumerate(batch):
                rows[i] = {name: array[row] for name, array in outputs.items()}
            progress.update(len(batch))
    progress.close()
    return rows


def _cores():
    if hasattr(os, "sched_getaffinity"):  # Not on macOS.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def as_hypotheses(row: Mapping[str, Any]) -> list[Hypothesis | AssessedHypothesis] | None:
    """A list of `Hypothesis` from the outputs of a search for one text; None if it found none.

    If the outputs include a confidence, a list of `AssessedHypothesis`.
    """
    if row["scores"][0] <= NO_HYPOTHESIS:
        return None
    hypotheses = [
        Hypothesis(translation.decode("utf-8", "replace"), float(score))
        for translation, score in zip(row["translations"], row["scores"], strict=True)
        if score > NO_HYPOTHESIS
    ]
    if "mean_log_probs" not in row:
        return hypotheses
    return [_assessed(hypothesis, row, i) for i, hypothesis in enumerate(hypotheses)]


def _assessed(hypothesis, row, i):
    token = row["worst_tokens"][i].decode("utf-8", "replace")
    warnings = {"loop": row["loops"][i], "length": row["disproportionate"][i]}
    return AssessedHypothesis(
        *hypothesis,
        mean_log_prob=float(row["mean_log_probs"][i]),
        worst_token=(token, float(row["worst_log_probs"][i])) if token else None,
        warnings=tuple(name for name, is_so in warnings.items() if is_so),
    )


def own_if_none(source: Any, target: Any) -> Any:
    """The targets to align: "" for each source, its own translation, if there are none."""
    if target is not None:
        return target
    if isinstance(source, str):
        return ""
    return [""] * len(as_list("source", source, "a str or a list of str"))


def as_alignment(row: Mapping[str, Any]) -> tuple[list[str], list[str], np.ndarray]:
    """The pieces of both sides and their attention, from the outputs of `align` for one text."""
    pieces = [
        [piece.decode("utf-8") for piece in row[f"{side}_tokens"][: row[f"{side}_lengths"]]]
        for side in ("source", "target")
    ]
    return *pieces, row["attention"][: len(pieces[1]), : len(pieces[0])]


def utf8(name: str, text: str) -> bytes:
    """A text encoded as UTF-8; ValueError, which names it, if it cannot be."""
    if not isinstance(text, str):
        raise InputError(f"{name} must be a str. Received: {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} cannot be encoded as UTF-8: {error}") from None


def _check_string_tensors(texts, **columns):
    for name, column in {"texts": texts, **columns}.items():
        if not (
            isinstance(column, tf.Tensor)
            and column.dtype == tf.string
            and column.shape.rank in (1, None)
        ):
            raise InputError(f"{name} must be a string tensor [batch]. Received: {column!r}")
        shapes = [texts.shape, column.shape]
        if not shapes[0].is_compatible_with(shapes[1]):
            raise InputError(
                f"texts and {name} must have the same length. Received: shapes {shapes}"
            )


def as_list(name: str, texts: Iterable[str], expected: str = "a list of str") -> list[str]:
    """A list from an iterable of texts; ValueError, which names it, for anything else."""
    # A str or a tensor would be split into its elements; a set has no order.
    others = (str, bytes, tf.Tensor, Mapping, Set)
    if isinstance(texts, others) or not isinstance(texts, Iterable):
        raise InputError(f"{name} must be {expected}. Received: {type(texts).__name__}")
    return list(texts)


def _progress(total):
    """A progress bar for long lists, in notebooks only; the command has its own."""
    from tqdm.auto import tqdm

    shown = total >= _LONG_LIST and "ipykernel" in sys.modules
    return tqdm(total=total, unit=" texts", disable=not shown)
