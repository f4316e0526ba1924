"""Strings to strings, from a model and a tokenizer."""

import abc
import functools
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, overload

import numpy as np
import tensorflow as tf

from keras_mt.decoding import NO_HYPOTHESIS, SearchNode, SearchOptions
from keras_mt.models import Seq2Seq, built, copy_of
from keras_mt.options import as_integer
from keras_mt.run_folder import RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.text.base import check_language
from keras_mt.translation.graph import TranslationGraph

# Texts handed over at once, and the bytes of their longest times their number.
_BATCH_TEXTS = 256
_BATCH_BYTES = 64 * 512
_LONG_LIST = 1024  # Texts for which a notebook shows a progress bar.

# The codes of a text's and of its translation's language, or of all: None for the default.
Codes = str | Iterable[str] | None


class Hypothesis(NamedTuple):
    """A translation.

    Attributes:
        text: The translation, str.
        score: Its log-probability / length ** length_penalty, where repetitions count with the
            `repetition_penalty`.
        tokens: Its pieces with the end, each with its log-probability, where asked for.

    Example:

    >>> Hypothesis("The book is on the table.", -0.05).text
    'The book is on the table.'
    """

    text: str
    score: float
    tokens: list[tuple[str, float]] | None = None


class Score(NamedTuple):
    """How probable a given translation is.

    Attributes:
        log_prob: Its log-probability.
        tokens: Its pieces with the end, each with its log-probability.

    Example:

    >>> score = Score(-1.5, [("▁The", -0.5), ("▁book", -0.75), ("</s>", -0.25)])
    >>> round(score.perplexity, 4)
    1.6487
    """

    log_prob: float
    tokens: list[tuple[str, float]]

    @property
    def perplexity(self) -> float:
        """That of the translation's tokens, the end among them."""
        return math.exp(-self.log_prob / len(self.tokens))


class BaseTranslator(abc.ABC):
    """What is called on a str, a list of str or a string tensor.

    Attributes:
        languages: The codes of the languages that it translates between; empty where there is no
            choice.
        source_language, target_language: Those of texts that name none, or None.
    """

    languages: Sequence[str] = ()
    source_language: str | None = None
    target_language: str | None = None

    @overload
    def __call__(
        self,
        texts: str,
        prefixes: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> str | list[str]: ...

    @overload
    def __call__(
        self,
        texts: tf.Tensor,
        prefixes: tf.Tensor | None = None,
        source_language: str | tf.Tensor | None = None,
        target_language: str | tf.Tensor | None = None,
    ) -> tf.Tensor: ...

    @overload
    def __call__(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[str] | list[list[str]]: ...

    def __call__(
        self,
        texts: str | Iterable[str] | tf.Tensor,
        prefixes: str | Iterable[str] | tf.Tensor | None = None,
        source_language: Codes | tf.Tensor = None,
        target_language: Codes | tf.Tensor = None,
    ) -> str | list[str] | list[list[str]] | tf.Tensor:
        if isinstance(texts, tf.Tensor):
            columns = {} if prefixes is None else {"prefixes": prefixes}
            _check_string_tensors(texts, **columns)
            languages = self._language_tensors(texts, source_language, target_language)
            return self._translations(texts, prefixes, **languages)
        one = isinstance(texts, str)
        if one:
            if not isinstance(prefixes, str | None):
                raise ValueError(
                    f"prefixes must be a str, as texts is. Received: {type(prefixes).__name__}"
                )
            texts, prefixes = [texts], None if prefixes is None else [prefixes]
        texts = as_list("texts", texts)
        languages = {"source_language": source_language, "target_language": target_language}
        found = self.hypotheses(texts, prefixes, **languages)
        for i, hypotheses in enumerate(found):
            if hypotheses is None:
                raise ValueError(self._why_none(i, prefixes))
        found = [[hypothesis.text for hypothesis in hypotheses] for hypotheses in found]
        if self._n_best == 1:
            found = [texts[0] for texts in found]
        return found[0] if one else found

    @abc.abstractmethod
    def hypotheses(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        token_scores: bool = False,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[list[Hypothesis] | None]: ...

    @property
    @abc.abstractmethod
    def _n_best(self) -> int: ...

    @abc.abstractmethod
    def _translations(self, texts, prefixes=None, **languages): ...

    def _set_languages(self, languages, source_language, target_language):
        """Sets the languages that there are, and the default ones, which must be among them."""
        self.languages = languages
        for name, code in (
            ("source_language", source_language), ("target_language", target_language),
        ):  # fmt: skip
            if code is not None:
                check_language(name, code, languages)
            setattr(self, name, code)

    def _languages(self, number, source_language, target_language) -> dict[str, list[str]]:
        """The codes of each of so many texts, by their names in the graph; none without a choice.

        Raises:
            ValueError: If there is none, one too many, or one that is unknown.
        """
        columns = {"source_language": source_language, "target_language": target_language}
        for name, given in columns.items():
            default = getattr(self, name)
            if given is None or isinstance(given, str):
                check_language(name, given or default, self.languages)
                columns[name] = [given or default] * number
                continue
            codes = columns[name] = [code or default for code in as_list(name, given)]
            if len(codes) != number:
                raise ValueError(
                    f"{name} must be a code, or a list of one for each text. "
                    f"Received: {len(codes)} for {number} texts"
                )
            for code in codes:
                check_language(name, code, self.languages)
        return columns if self.languages else {}

    def _language_tensors(self, texts, source_language, target_language) -> dict[str, tf.Tensor]:
        """As `_languages`, for a tensor of texts; where these come as tensors, rows are refused."""
        columns = {"source_language": source_language, "target_language": target_language}
        tensors = {n: x for n, x in columns.items() if isinstance(x, tf.Tensor)}
        _check_string_tensors(texts, **tensors)
        some = {name: self.languages[0] for name in tensors if self.languages}
        codes = self._languages(1, **{**columns, **some})
        return {n: tensors.get(n, tf.fill(tf.shape(texts), code)) for n, (code,) in codes.items()}

    def _why_none(self, i, prefixes) -> str:
        return f"The model gives no finite probabilities for text {i}. Has its training diverged?"


class Translator(BaseTranslator):
    """Translates strings with beam search.

    A text of more tokens than the model's limit is translated in pieces, cut after sentences or, if
    it must be, between words, and given back as one. Its score is that of all its tokens together.

    Args:
        model: A `keras_mt.Transformer` or another `keras_mt.models.Seq2Seq`; or a list of them, of
            any architectures, that share a vocabulary: an ensemble, whose log-probabilities are
            averaged.
        tokenizer: The `keras_mt.Tokenizer`, or another `keras_mt.text.BaseTokenizer`, that the
            model was trained with.
        beam_size: Number of live hypotheses, 4 if None; 1 is greedy search. Not for sampling.
        n_best: Number of translations of each sentence, at most `beam_size`; of samples, with a
            `temperature`.
        length_penalty: Exponent of the length in the score: a hypothesis's score is its
            log-probability / length ** length_penalty, where the length counts the generated
            tokens with the end, and the log-probability is that with the `repetition_penalty`.
        min_length: The fewest tokens to generate, with the end.
        max_length: The most tokens to generate, with the end; None means twice the source's tokens
            plus 10, and never more than the model's own limit.
        split_sentences: Whether to translate each sentence of a line by itself, as most models
            were trained to. Lines always are, and line ends stay where they are.
        source_language, target_language: For a model of several languages, the codes of those that
            texts are taken to be in, and are translated into, where a call names none; also
            attributes. The tokenizer's `languages` are the codes that there are.
        **options: The other fields of `keras_mt.decoding.SearchOptions`: `early_stopping`,
            `patience` and `force_end`; `repetition_penalty` and `no_repeat_ngram_size`;
            `temperature`, `top_k`, `top_p` and `seed` for sampling.

    Attributes:
        card: What there is to say of the model in its exports, a dict; `load` fills it from the
            run's configuration and its last measurement of BLEU.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        prefixes: What each translation begins with, of the same type, or None.
        source_language, target_language: For a model of several languages: a code for all texts, or
            one for each, a list (a string tensor `[batch]` for a tensor). None, or "", for the
            translator's.

    Returns:
        For a str a str, for a list a list of str (with `n_best` > 1 a list, and a list of lists,
        best first), for a tensor a string tensor `[batch, n_best]`. The translation of an empty
        string is empty.

    Raises:
        ValueError: If an option is out of range, model and tokenizer do not fit, an argument is of
            another type, a language is unknown or not given, or a text has no translation, since
            its prefix is longer than the model's limit or the model's probabilities are not finite
            (its row of a tensor is empty instead, as where its language comes in a tensor).

    Example:

    >>> translator = Translator.load("runs/pt_en")  # doctest: +SKIP
    >>> translator("O livro está em cima da mesa.")  # doctest: +SKIP
    'The book is on the table.'
    """

    def __init__(
        self,
        model: Seq2Seq | Sequence[Seq2Seq],
        tokenizer: BaseTokenizer,
        beam_size: int | None = None,
        n_best: int = 1,
        length_penalty: float = 1.0,
        min_length: int = 0,
        max_length: int | None = None,
        split_sentences: bool = True,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ):
        self.options = SearchOptions(beam_size, n_best, length_penalty, min_length, **options)
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        self.tokenizer = tokenizer
        self.max_length = None if max_length is None else as_integer("max_length", max_length)
        self.split_sentences = bool(split_sentences)
        for model in self.models:
            _check_fits(built(model), tokenizer)
        self.card: dict[str, Any] = {}
        self._set_languages(tokenizer.languages, source_language, target_language)
        self._graph = TranslationGraph(
            self.models,
            tokenizer,
            self.options,
            self.max_length,
            self.split_sentences,
            (source_language, target_language),
        )
        limit = self._graph.limit
        if min(self._graph.source_limit, self._graph.target_limit) < 1:
            raise ValueError(
                "The model's max_length must be at least 2, for a token and the end. "
                f"Received: {limit}"
            )
        longest = limit if max_length is None else max_length
        if not max(1, min_length) <= longest <= limit:
            raise ValueError(
                f"max_length must be at least 1, at least min_length={min_length} and at most the "
                f"model's {limit}. Received: max_length={max_length}"
            )
        self._translate = {  # By whether there are prefixes, and token scores are asked for.
            (prefixes, token_scores): self._function(
                functools.partial(self._graph.translate, token_scores=token_scores), 1 + prefixes
            )
            for prefixes in (False, True)
            for token_scores in (False, True)
        }
        self._score = self._function(self._graph.score, 2)
        self._align = self._function(self._graph.align, 2)

    def _function(self, method, number):
        """A function of so many columns of strings and, where there is a choice, of languages."""

        def run(*columns):
            return method(*columns[:number], languages=columns[number:])

        specs = [tf.TensorSpec([None], tf.string)] * (number + 2 * bool(self.languages))
        # Nothing in it is for AutoGraph, which would take most of the time that tracing takes.
        return tf.function(run, autograph=False, input_signature=specs)

    @classmethod
    def load(
        cls,
        run_dir: str | os.PathLike | Sequence[str | os.PathLike],
        architecture: str | type | Sequence[str | type] | None = None,
        **options: Any,
    ) -> Self:
        """A translator from the run folder that `keras-mt train` wrote.

        What its config.json says of decoding, and of languages, holds where nothing else is given.

        Args:
            run_dir: Folder with `model.keras` and `tokenizer.model`; or a list of folders whose
                tokenizers are the same, an ensemble.
            architecture: `MODULE:CLASS`, or the class, of a model that is none of keras_mt's own;
                or a list of such.
            **options: `beam_size` and the other options of the constructor.

        Returns:
            A `Translator`, which computes in float32 whatever the dtype of the weights.

        Raises:
            FileNotFoundError: If a file is missing; the message says which.
            ValueError: If the tokenizers differ, or a model's class is not known.
        """
        run_dirs = run_dir if isinstance(run_dir, (list, tuple)) else [run_dir]
        folders = [RunFolder(each) for each in run_dirs]
        for folder in folders:
            folder.check_finished()
        tokenizers = [folder.load_tokenizer() for folder in folders]
        for folder, tokenizer in zip(folders, tokenizers, strict=True):
            if tokenizer.fingerprint != tokenizers[0].fingerprint:
                raise ValueError(
                    f"{folder} and {folders[0]} have different tokenizers: the models of an "
                    "ensemble must share one."
                )
        models = [_in_float32(folder.load_model(architecture)) for folder in folders]
        defaults = _defaults(folders[0].config, min(m.max_length for m in models), options)
        translator = cls(models, tokenizers[0], **{**defaults, **options})
        translator.card = folders[0].card()
        return translator

    @property
    def aligns(self) -> bool:
        """Whether the model has an attention for `align` to show."""
        return self._graph.aligns

    @property
    def _n_best(self):
        return self.options.n_best

    def _translations(self, texts, prefixes=None, **languages):
        columns = [texts] if prefixes is None else [texts, prefixes]
        function = self._translate[prefixes is not None, False]
        return function(*columns, *languages.values())["translations"]

    def _why_none(self, i, prefixes):
        limit = self._graph.target_limit
        if prefixes is not None:
            pieces = self.tokenizer.target_pieces(tf.constant([_utf8("prefix", prefixes[i])]))
            if int(pieces.row_lengths()[0]) > limit:
                return _too_long(f"Prefix {i}", limit)
        return super()._why_none(i, prefixes)

    def hypotheses(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        token_scores: bool = False,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[list[Hypothesis] | None]:
        """The `n_best` translations of each text with their scores.

        Args:
            texts: List of str.
            prefixes: List of str, what each translation begins with, or None.
            token_scores: Whether to fill in the hypotheses' `tokens`.
            source_language, target_language: As in a call.

        Returns:
            For each text a list of `Hypothesis`, best first (fewer than `n_best` where there are
            no more), or None where the prefix is longer than the model's limit, or the model's
            probabilities are not finite.

        Raises:
            ValueError: If an argument is not a list of str, the lists differ in length, or a
                language is unknown or not given.
        """
        texts = as_list("texts", texts)
        columns = {} if prefixes is None else {"prefixes": prefixes}
        columns |= self._languages(len(texts), source_language, target_language)
        function = self._translate[prefixes is not None, token_scores]
        rows = run_in_batches(function, texts=texts, **columns)
        return [self._with_tokens(as_hypotheses(row), row) for row in rows]

    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[Score | None]:
        """How probable the model finds given translations.

        Lines are scored apart, and added up, where both sides have as many.

        Args:
            sources: List of str.
            targets: List of str, a translation of each.
            source_language, target_language: As in a call.

        Returns:
            List of `Score`; None where a line is longer than the model's limit.

        Raises:
            ValueError: If an argument is not a list of str, the lists differ in length, or a
                language is unknown or not given.

        Example:

        >>> translator.score(["O livro."], ["The book."])[0].perplexity  # doctest: +SKIP
        """
        sources = as_list("sources", sources)
        languages = self._languages(len(sources), source_language, target_language)
        return [
            None
            if row["refused"]
            else Score(
                float(row["log_probs"].sum()),
                self._pieces(row["tokens"], row["log_probs"], row["lengths"]),
            )
            for row in run_in_batches(self._score, sources=sources, targets=targets, **languages)
        ]

    def align(
        self,
        source: str,
        target: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> tuple[list[str], list[str], np.ndarray]:
        """The attention of each token of a translation over the tokens of its source.

        The cross-attention of the last decoder block, averaged over its heads. Without a target,
        the source is translated in segments as by a call; lines are aligned apart where both sides
        have as many. Each segment and line ends with an end, and attends to its own source alone.

        Args:
            source: A str.
            target: A str, its translation; the translator's own when None or empty.
            source_language, target_language: As in a call.

        Returns:
            The pieces of the source and of the target, lists of str, each with the end at its
            end, and a float32 NumPy array `[target_pieces, source_pieces]` whose rows sum to 1.

        Raises:
            ValueError: If an argument is not a str, a line is longer than the model's limit, the
                model has no attention, or a language is unknown or not given.
        """
        if not self.aligns:
            raise ValueError("The model has no attention to align by.")
        texts = {"source": source, "target": "" if target is None else target}
        texts = [tf.constant([_utf8(name, text)]) for name, text in texts.items()]
        languages = self._languages(1, source_language, target_language)
        outputs = self._align(*texts, *map(tf.constant, languages.values()))
        outputs = {name: tensor[0].numpy() for name, tensor in outputs.items()}
        if outputs["refused"]:
            limit = min(self._graph.source_limit, self._graph.target_limit)
            raise ValueError(_too_long("The source or the target", limit))
        pieces = [
            [piece.decode("utf-8") for piece in outputs[f"{side}_tokens"][:length]]
            for side in ("source", "target")
            for length in [outputs[f"{side}_lengths"]]
        ]
        return *pieces, outputs["attention"][: len(pieces[1]), : len(pieces[0])]

    def search_tree(
        self, text: str, source_language: str | None = None, target_language: str | None = None
    ) -> list[SearchNode]:
        """What the search for a translation kept, finished and pruned at each step.

        It runs op by op, for one text to be looked at: `keras_mt.plots.plot_search` draws it.

        Args:
            text: A str, one sentence.
            source_language, target_language: As in a call.

        Returns:
            A list of `keras_mt.decoding.SearchNode`, whose tokens are pieces. The finished one with
            the best score is the translation.

        Raises:
            ValueError: If the text is not a str, has several sentences, or is longer than the
                model's limit, or a language is unknown or not given.
        """
        languages = self._languages(1, source_language, target_language)
        languages = tuple(map(tf.constant, languages.values()))
        nodes = self._graph.search_tree(tf.constant([_utf8("text", text)]), languages)
        ids = tf.constant([node.token for node in nodes], tf.int32)
        pieces = self.tokenizer.id_to_string(ids).numpy()
        return [
            node._replace(token=piece.decode("utf-8"))
            for node, piece in zip(nodes, pieces, strict=True)
        ]

    def _with_tokens(self, hypotheses, row):
        if hypotheses is None or "log_probs" not in row:
            return hypotheses
        tokens = map(self._pieces, row["tokens"], row["log_probs"], row["lengths"])
        return [
            hypothesis._replace(tokens=pieces)
            for hypothesis, pieces in zip(hypotheses, tokens, strict=False)
        ]

    def _pieces(self, ids, log_probs, length):
        """The pieces of ids before the padding, each with its log-probability."""
        pieces = self.tokenizer.id_to_string(tf.constant(ids[:length], tf.int32)).numpy()
        pieces = [piece.decode("utf-8") for piece in pieces]
        return list(zip(pieces, map(float, log_probs[:length]), strict=True))

    def export(self, directory: str | os.PathLike, dtype: str = "float32", **options: Any) -> None:
        """Writes a SavedModel that TensorFlow Serving loads: strings in, translations out.

        Its signature `serving_default` takes `text`, string `[batch]`, and returns `translations`,
        string `[batch, n_best]`, best first, and `scores`, float32 `[batch, n_best]`. There are
        also `greedy`, a beam of 1; `tunable`, in which each row brings its own options; `score`,
        log-probabilities of given translations; and `align`, soft alignments. It needs
        tensorflow and tensorflow_text, and not keras_mt. The write is atomic.

        Where the model is of several languages, each signature also takes `source_language` and
        `target_language`, string `[batch]`: codes, or "" for the translator's. A row without one,
        or with an unknown one, has no translation: it is empty, with the score -1e9.

        Args:
            directory: The version folder to write, such as `saved_models/pt_en/1`.
            dtype: Dtype of the weights and of the computation: "float32", "bfloat16" or "float16".
            **options: The others of `keras_mt.serving.export.export`: `freeze`, `max_beam_size`,
                `card` and `warmup_texts`.

        Raises:
            FileExistsError: If the directory is there already.
        """
        from keras_mt.serving.export import export  # It stands above: this is a short cut to it.

        export(self, directory, dtype, **options)


def run_in_batches(
    function: Callable[..., dict[str, tf.Tensor]], **columns: Iterable[str]
) -> list[dict[str, Any]]:
    """Runs a function of string tensors `[batch]` over lists of str of any lengths.

    Texts of like length go together, and their outputs come back in order.

    Args:
        function: From string tensors `[batch]`, one of each column, to a dict of tensors
            `[batch, ...]`.
        **columns: Lists of str, equally many in each, by their names in messages.

    Returns:
        For each text a dict of what the function returned for it, as NumPy arrays.

    Raises:
        ValueError: If a column is not a list of str that UTF-8 can encode, or they differ in
            length.
    """
    names = " and ".join(columns)
    columns = [_encoded(name, texts) for name, texts in columns.items()]
    if len({len(texts) for texts in columns}) > 1:
        numbers = " and ".join(str(len(texts)) for texts in columns)
        raise ValueError(f"{names} must have the same length. Received: {numbers} texts")
    lengths = [max(map(len, row)) for row in zip(*columns, strict=True)]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    found = [None] * len(order)
    progress = _progress(len(order))
    while order:
        size = max(1, min(_BATCH_TEXTS, _BATCH_BYTES // max(1, lengths[order[0]])))
        batch, order = order[:size], order[size:]
        outputs = function(*(tf.constant([texts[i] for i in batch]) for texts in columns))
        outputs = {name: tensor.numpy() for name, tensor in outputs.items()}
        for row, i in enumerate(batch):
            found[i] = {name: array[row] for name, array in outputs.items()}
        progress.update(size)
    progress.close()
    return found


def as_hypotheses(row: Mapping[str, Any]) -> list[Hypothesis] | None:
    """What a search returned for one text as a list of `Hypothesis`; None if there is none."""
    if row["scores"][0] <= NO_HYPOTHESIS:
        return None
    return [
        Hypothesis(translation.decode("utf-8", "replace"), float(score))
        for translation, score in zip(row["translations"], row["scores"], strict=True)
        if score > NO_HYPOTHESIS
    ]


def _encoded(name, texts):
    return [_utf8(f"{name}[{i}]", text) for i, text in enumerate(as_list(name, texts))]


def _utf8(name, text):
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a str. Received: {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} cannot be encoded as UTF-8: {error}") from None


def _check_string_tensors(texts, **columns):
    for name, column in {"texts": texts, **columns}.items():
        if not (
            isinstance(column, tf.Tensor)
            and column.dtype == tf.string
            and column.shape.rank in (1, None)
        ):
            raise ValueError(f"{name} must be a string tensor [batch]. Received: {column!r}")
        shapes = [texts.shape, column.shape]
        if not shapes[0].is_compatible_with(shapes[1]):
            raise ValueError(
                f"texts and {name} must have the same length. Received: shapes {shapes}"
            )


def _in_float32(model):
    if model.compute_dtype == "float32":
        return model
    return copy_of(model, dtype="float32")


def _defaults(config, limit, given):
    """What a run's configuration says of decoding and of languages, beside what is given."""
    if config is None:
        return {}
    languages = {n: config.options[n] for n in ("source_language", "target_language")}
    languages = {name: code for name, code in languages.items() if code is not None}
    options = {**(config.generation or {}), **languages}
    if given.get("temperature") is not None:
        options.pop("beam_size", None)  # It is of a search for the best.
    if options.get("max_length") is not None:  # Fine-tuning may have made the limit less.
        options["max_length"] = min(as_integer("max_length", options["max_length"]), limit)
    return options


def _check_fits(model, tokenizer):
    for side in ("source", "target"):
        sizes = [getattr(each, f"{side}_vocab_size") for each in (model, tokenizer)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"The model has a {side} vocabulary of {sizes[0]} tokens and the tokenizer one of "
                f"{sizes[1]}: they were not trained together."
            )
    if model.padding_id != tokenizer.padding_id:
        raise ValueError(
            f"The model's padding_id is {model.padding_id} and the tokenizer's "
            f"{tokenizer.padding_id}: make the model with the tokenizer's."
        )


def _too_long(what, limit):
    return f"{what} has more than {limit} tokens, the model's limit: split it into lines."


def as_list(name: str, texts: Iterable[str]) -> list[str]:
    """A list of an iterable of texts; of anything else ValueError by the name."""
    # A str or a tensor would be taken apart.
    if isinstance(texts, (str, bytes, tf.Tensor)) or not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a list of str. Received: {type(texts).__name__}")
    return list(texts)


def _progress(total):
    """A bar in notebooks, for long lists; the command has its own."""
    from tqdm.auto import tqdm

    shown = total >= _LONG_LIST and "ipykernel" in sys.modules
    return tqdm(total=total, unit=" texts", disable=not shown)
