"""Strings to strings, from a model and a tokenizer."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from keras_mt.alignment import Shortlist
from keras_mt.alignment.attention_links import attention_links
from keras_mt.decoding import SearchOptions
from keras_mt.errors import InputError
from keras_mt.extras import require_backend
from keras_mt.inference.graph import TranslationGraph
from keras_mt.inference.predictors import Predictor
from keras_mt.models import Seq2Seq, ensure_built
from keras_mt.options import MAX_LINE_BYTES, TranslationOptions
from keras_mt.options.fields import as_integer
from keras_mt.run_folder import RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.text.glossary import Glossary, check_glossary
from keras_mt.text.words import words_of_pieces
from keras_mt.translation.base import LANGUAGES, BaseTranslator, Codes
from keras_mt.translation.batches import run_in_batches
from keras_mt.translation.checks import check_fits, check_lengths, check_shortlist, check_types
from keras_mt.translation.results import Results, Score, as_alignment, as_pieces, by_hypothesis

# What a model's configuration has that its translations do not depend on.
_NAMES = "name", "trainable", "frozen"


class Translator(BaseTranslator):
    """Translates strings with beam search.

    A text of more tokens than the model's limit is translated in parts, cut after sentences or, if
    need be, between words, and the translations are joined. The score is that of all tokens
    together.

    Args:
        model: A `keras_mt.Transformer` or another `keras_mt.models.Seq2Seq`; or a list of them, of
            any architectures, that share a vocabulary: an ensemble, whose log-probabilities are
            averaged.
        tokenizer: The `keras_mt.Tokenizer`, or another `keras_mt.text.BaseTokenizer`, that the
            model was trained with.
        beam_size: Number of live hypotheses; None means 4, and 1 is greedy search. It must be None
            with a `temperature`.
        n_best: Number of translations of each text, at most `beam_size`; with a `temperature`,
            number of samples.
        length_penalty: Exponent of the length in the score: the score of a hypothesis is
            log_prob / length ** length_penalty, where the length counts the generated tokens with
            the end, and the log-probability includes the `repetition_penalty`. From 0 to 5.
        min_length: The minimum number of tokens to generate, with the end.
        max_length: The maximum number of tokens to generate, with the end, at most the model's own
            limit; None means twice the source's tokens plus 10, but no more than that limit.
        split_sentences: Whether to translate each sentence of a line by itself, since most models
            are trained on single sentences. Lines are always translated one by one, and line ends
            stay where they are.
        source_language, target_language: For a model of several languages, the default codes of
            the languages to translate from and into, for calls that give none; also attributes.
            The tokenizer's `languages` lists the codes.
        shortlist: A `Shortlist` of the tokens that translations may hold, which saves the logits of
            all others; None for no such limit. Scores and alignments of given translations are
            computed without it. It does not go with a `temperature`, and leaves a model of
            several languages only the pair that it was learned for.
        max_line_bytes: The maximum number of bytes of a line; a text with a longer one is refused,
            since it would block all others for as long as it takes.
        glossary: A `keras_mt.Glossary`, whose terms translations hold for those of their sources,
            for calls that give none; also an attribute.
        keep: The kinds of spans that translations repeat as they are, a list of `"email"`,
            `"url"`, `"placeholder"`, `"phone"`, `"number"` and `"emoji"`; None for all but
            numbers.
        max_length_factor: The maximum number of tokens to generate as a multiple of the source's,
            both with their end, unless `max_length` is given; None for the default of `max_length`.
        **options: The other fields of `keras_mt.decoding.SearchOptions`: `word_penalty`;
            `early_stopping`, `patience` and `force_end`; `repetition_penalty`,
            `no_repeat_ngram_size` and `renormalize`; `temperature`, `top_k`, `top_p` and `seed` for
            sampling.

    Attributes:
        card: Fields for the model card of exports, a dict; `load` fills it from the run's
            configuration and its last measurement of BLEU.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        prefixes: What each translation must begin with, of the same type as `texts`, or None.
        source_language, target_language: For a model of several languages: one code for all texts,
            or a list with one for each (for a tensor of texts, a string tensor `[batch]`). None, or
            "", means the translator's default.
        glossary: A `keras_mt.Glossary` in place of the translator's own, or a list with one for
            each text; None for its own.
        markup: "html" if the texts are fragments of HTML, whose elements are put around what their
            words became (see `hypotheses`); not with a tensor.

    Returns:
        For a str a str, for a list a list of str; with `n_best` > 1 a list of str and a list of
        lists of str, best first. For a tensor a string tensor `[batch, n_best]`. The translation of
        an empty string is empty.

    Raises:
        ValueError: If an option is out of range, if model and tokenizer do not match, if an
            argument has the wrong type, if a language is unknown or missing, or if a text has no
            translation because its prefix is longer than the model's limit or the model's
            probabilities are not finite. In a tensor, the row of a text without a translation, or
            whose language in a tensor is unknown, is empty instead.

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
        shortlist: Shortlist | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        glossary: Glossary | None = None,
        keep: str | Sequence[str] | None = None,
        max_length_factor: float | None = None,
        **options: Any,
    ):
        require_backend("keras_mt.Translator")
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        check_types(model, self.models, tokenizer)
        search = [field.name for field in dataclasses.fields(SearchOptions)]
        if unknown := [name for name in options if name not in search]:
            raise InputError(
                f"{unknown[0]} is no option of a Translator. "
                f"Received: {unknown[0]}={options[unknown[0]]!r}"
            )
        self._options = TranslationOptions(
            beam_size=beam_size,
            n_best=n_best,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
            split_sentences=split_sentences,
            max_line_bytes=max_line_bytes,
            keep=keep,
            max_length_factor=max_length_factor,
            **options,
        )
        self.options = SearchOptions(**{name: getattr(self._options, name) for name in search})
        self.tokenizer = tokenizer
        self.n_best, self.kept_kinds = self.options.n_best, self._options.keep
        self.max_length = self._options.max_length
        self.max_length_factor = self._options.max_length_factor
        self.split_sentences = self._options.split_sentences
        self.max_line_bytes = self._options.max_line_bytes
        self.shortlist = shortlist
        if shortlist is not None:
            check_shortlist(shortlist, tokenizer, self.options, source_language, target_language)
        check_glossary(glossary)
        self.glossary = glossary
        for model in self.models:
            check_fits(ensure_built(model), tokenizer)
        self.card: dict[str, Any] = {}
        pair = None if shortlist is None else shortlist.languages
        languages = tokenizer.languages if pair is None else pair
        self._set_languages(languages, source_language, target_language, pair)
        # Each row's languages are given: the default ones may change.
        predictor = Predictor(self.models, shortlist)
        self._graph = self.graph(predictor, **dict.fromkeys(LANGUAGES))
        self.trusted_attention = predictor.trusted_attention
        self.reads_terms = bool(tokenizer.term_markers and predictor.reads_terms)
        self._functions = {}
        check_lengths(self._graph)

    def graph(self, predictor: Predictor, **options: Any) -> TranslationGraph:
        """The functions of string tensors that translate, score and align as this translator does.

        Args:
            predictor: What they ask instead of the translator's own models.
            **options: Fields of `TranslationOptions` to change.

        Example:

        >>> from keras_mt.inference import Predictor  # doctest: +SKIP
        >>> translator.graph(Predictor(translator.models), beam_size=1)  # doctest: +SKIP
        """
        languages = {name: getattr(self, name) for name in LANGUAGES}
        options = dataclasses.replace(self._options, **{**languages, **options})
        pair = None if self.shortlist is None else self.shortlist.languages
        return TranslationGraph(predictor, self.tokenizer, options, pair)

    def _run(self, name, *flags, **columns):
        return run_in_batches(self._function(name, columns, *flags), **columns)

    def _function(self, name, columns, *flags):
        """`translate`, `score` or `align` of the graph as a `tf.function` of columns of strings.

        The languages' columns are the last ones, if there are any. The flags are set.
        """
        key = name, len(columns), *flags
        if key not in self._functions:
            method = getattr(self._graph, name)
            specs = [tf.TensorSpec([None], tf.string)] * len(columns)
            texts = len({*columns} - {*LANGUAGES})
            options = dict.fromkeys(flags, True)

            def run(*inputs):
                return method(*inputs[:texts], languages=inputs[texts:], **options)

            # Nothing in it needs AutoGraph, which would take most of the tracing time.
            self._functions[key] = tf.function(run, autograph=False, input_signature=specs)
        return self._functions[key]

    @classmethod
    def load(
        cls,
        run_dir: str | os.PathLike | Sequence[str | os.PathLike],
        architecture: str | type | Sequence[str | type] | None = None,
        dtype: str | None = "float32",
        **options: Any,
    ) -> Self:
        """Loads a translator from a run folder that `keras-mt train` wrote.

        The decoding options and languages in its config.json are the defaults of `options`.

        Args:
            run_dir: Folder with `model.keras` and `tokenizer.model`; or a list of folders whose
                tokenizers are the same, an ensemble.
            architecture: `MODULE:CLASS`, or the class, of a model that is not one of keras_mt's
                own; or a list of such.
            dtype: Dtype of the weights and of the computation, such as "bfloat16"; None for that of
                the file, which takes the least memory if the model is only exported.
            **options: `beam_size` and the other options of the constructor.

        Returns:
            A `Translator`.

        Raises:
            FileNotFoundError: If a file is missing; the message says which.
            ValueError: If the tokenizers differ, a model's class is unknown, or an option is
                invalid.
        """
        run_dirs = run_dir if isinstance(run_dir, (list, tuple)) else [run_dir]
        if not run_dirs or not all(isinstance(x, (str, os.PathLike)) for x in run_dirs):
            raise InputError(f"run_dir must be a folder, or a list of folders. Received: {run_dir}")
        folders = [RunFolder(folder) for folder in run_dirs]
        for folder in folders:
            folder.check_finished()
        tokenizers = [folder.load_tokenizer() for folder in folders]
        for folder, tokenizer in zip(folders, tokenizers, strict=True):
            if tokenizer.fingerprint != tokenizers[0].fingerprint:
                raise InputError(
                    f"{folder} and {folders[0]} have different tokenizers: the models of an "
                    "ensemble must share one."
                )
        models = [folder.load_model(architecture, dtype) for folder in folders]
        defaults = _defaults(folders[0].config, min(m.max_length for m in models), options)
        translator = cls(models, tokenizers[0], **{**defaults, **options})
        translator.card = folders[0].card()
        return translator

    @property
    def aligns(self) -> bool:
        """Whether the model has attention weights for `align`."""
        return self._graph.aligns

    def _translations(self, texts, prefixes=None, **languages):
        columns = {"texts": texts} | ({} if prefixes is None else {"prefixes": prefixes})
        columns |= languages
        return self._function("translate", columns)(*columns.values())["translations"]

    def _search(self, token_scores, confidence, attention, **columns):
        flags = {"token_scores": token_scores, "confidence": confidence, "attention": attention}
        rows = self._run("translate", *filter(flags.get, flags), **columns)
        return list(map(by_hypothesis, rows))

    def _why_refused(self, texts, prefixes=None, **languages):
        if reason := self._line_too_long(texts):
            return reason
        if prefixes is not None:
            segmenter = self._graph.segmenter
            limit = segmenter.target_limit
            pieces = self.tokenizer.target_pieces(tf.constant([prefixes]))
            if int(pieces.row_lengths()[0]) > limit:
                return f"its prefix has more than {limit} tokens, the model's limit: shorten it."
            segments = segmenter.segments(tf.constant([texts]), has_prefix=True)
            if segmenter.prefixes(tf.constant([prefixes]), segments)[1][0]:
                return (
                    "it and its prefix have several lines or sentences, which are translated one "
                    "by one: give what the first begins with, and translate the others by "
                    "themselves."
                )
        options = {"min_length": self.options.min_length, "shortlist": self.shortlist}
        options["no_repeat_ngram_size"] = self.options.no_repeat_ngram_size
        limiting = [name for name, value in options.items() if value]
        if limiting and self._unlimited.hypotheses([texts], **languages)[0] is not None:
            return f"no token is left to go on with, because of {' and '.join(limiting)}."
        return super()._why_refused(texts)

    @functools.cached_property
    def _unlimited(self):
        """A translator that any token may go on with."""
        limits = {"max_length": self.max_length, "max_line_bytes": self.max_line_bytes}
        return Translator(self.models, self.tokenizer, 1, **limits)

    @property
    def fingerprint(self) -> str:
        """A digest of all that its translations and scores depend on.

        Example:

        >>> translator.fingerprint == Translator.load("runs/pt_en").fingerprint  # doctest: +SKIP
        True
        """
        arguments = self._arguments()
        if shortlist := arguments["shortlist"]:
            tables = shortlist.table.tobytes(), shortlist.always.tobytes()
            arguments["shortlist"] = shortlist.fingerprint, shortlist.languages, *tables
        if arguments["glossary"] is not None:
            arguments["glossary"] = arguments["glossary"].fingerprint
        digest = hashlib.blake2b(digest_size=16)
        digest.update(repr((self.tokenizer.fingerprint, sorted(arguments.items()))).encode())
        for model in self.models:
            config = {**model.get_config(), "dtype": model.dtype_policy.name}
            config = {n: x for n, x in config.items() if n not in _NAMES}
            digest.update(repr((type(model).__qualname__, sorted(config.items()))).encode())
            for weight in model.get_weights():
                digest.update(weight.tobytes())
        return digest.hexdigest()

    def with_options(self, **options: Any) -> "Translator":
        """A translator with the same models and other options.

        Args:
            **options: Options of the constructor; those not given stay as they are.

        Example:

        >>> translator.with_options(no_repeat_ngram_size=3)("O livro.")  # doctest: +SKIP
        """
        arguments = self._arguments()
        if options.get("temperature") is not None:
            arguments["beam_size"] = None  # Sampling takes none.
        return _with_card(self.models, self.tokenizer, {**arguments, **options}, self.card)

    def _arguments(self):
        """The constructor's arguments, but for models and tokenizer."""
        others = {name: getattr(self, name) for name in (*LANGUAGES, "shortlist", "glossary")}
        return dataclasses.asdict(self._options) | others

    def __reduce__(self) -> tuple:
        # Its graph has functions and resources of TensorFlow, which are made anew.
        return _with_card, (self.models, self.tokenizer, self._arguments(), self.card)

    def score(
        self,
        sources: str | Iterable[str],
        targets: str | Iterable[str],
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> Score | Results:
        """Scores given translations: how probable they are under the model.

        If both sides have the same number of lines, the lines are scored separately and the
        log-probabilities are added up.

        Args:
            sources: A str or a list of str.
            targets: Of the same type, a translation of each.
            source_language, target_language: As in a call.

        Returns:
            For a str a `Score`, for a list `Results`. A text is refused if a line is too long, or
            if the model's probabilities are not finite.

        Raises:
            ValueError: As by `hypotheses`.

        Example:

        >>> translator.score("O livro.", "The book.").perplexity  # doctest: +SKIP
        """
        columns = {"sources": sources, "targets": targets}
        one, lists = self._lists(columns, source_language, target_language)
        return self._results(self._run("score", **lists), self._as_score, one, lists)

    def _as_score(self, row, sources, **_):
        if row["refused"]:
            return self._too_long(sources)
        if not np.isfinite(row["log_probs"]).all():
            return super()._why_refused(sources)
        return Score(float(row["log_probs"].sum()), as_pieces(row))

    def _too_long(self, source):
        segmenter = self._graph.segmenter
        limit = min(segmenter.source_limit, segmenter.target_limit)
        return self._line_too_long(source) or (
            f"a line of the source or the target has more than {limit} tokens, the model's limit: "
            "split it into lines."
        )

    def _as_alignment(self, row, source, **_):
        if row["refused"]:
            return self._too_long(source)
        return as_alignment(row) or super()._why_refused(source)

    def align_words(
        self,
        source: str | Iterable[str],
        target: str | Iterable[str],
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> np.ndarray | Results:
        """The word alignment of given translations, from the attention that `align` gives.

        Words are what white space separates. The attention of a word is the mean of its pieces',
        and that on a word the sum over its pieces. Each target word is linked to the source word
        that it attends to most.

        Args:
            source: A str or a list of str.
            target: Of the same type, a translation of each.
            source_language, target_language: As in a call.

        Returns:
            For a str an int32 NumPy array `[links, 2]`, the source's and the target's index of each
            link, from 0; for a list `Results` of such. A text is refused if a line is too long.

        Raises:
            ValueError: As by `align`.

        Example:

        >>> translator.align_words("O livro é bom.", "The book is good.")  # doctest: +SKIP
        """
        if not self.aligns:
            raise InputError("The model has no attention to align by.")
        columns = {"source": source, "target": target}
        one, lists = self._lists(columns, source_language, target_language)
        return self._results(self._run("align", **lists), self._as_links, one, lists)

    def _as_links(self, row, source, target, **_):
        alignment = self._as_alignment(row, source)
        if isinstance(alignment, str):
            return alignment
        pieces, target_pieces, attention = alignment
        source_words = words_of_pieces(source.split(), pieces)
        return attention_links(
            attention, source_words, words_of_pieces(target.split(), target_pieces)
        )

    def export(self, directory: str | os.PathLike, dtype: str = "float32", **options: Any) -> None:
        """Exports a SavedModel that TensorFlow Serving loads: strings in, translations out.

        Its signature `serving_default` takes `text`, string `[batch]`, and returns `translations`,
        string `[batch, n_best]`, best first, and `scores`, float32 `[batch, n_best]`. There are
        also `greedy`, greedy search; `score`, log-probabilities of given translations; and `align`,
        soft alignments, if the model has attention. With these two, glossaries are heeded and spans
        kept (see `keras_mt.text.Source`). To run, it needs tensorflow and tensorflow_text, but not
        keras_mt. The write is atomic.

        For a model of several languages, each signature also takes `source_language` and
        `target_language`, string `[batch]`: codes, or "" for the translator's default. A row whose
        code is missing or unknown has no translation: it is empty, with the score -1e9.

        Args:
            directory: The version folder to write, such as `saved_models/pt_en/1`.
            dtype: Dtype of the weights and of the computation: "float32", "bfloat16" or "float16".
            **options: The other arguments of `keras_mt.convert.to_saved_model`: `freeze`, `card`,
                `warmup_texts`, `confidence` and `signatures`.

        Raises:
            FileExistsError: If the directory exists.
            ValueError: As in `keras_mt.convert.to_saved_model`.

        Example:

        >>> translator.export("saved_models/pt_en/1", dtype="bfloat16")  # doctest: +SKIP
        """
        from keras_mt.convert.saved_model import to_saved_model  # It imports this module.

        to_saved_model(self, directory, dtype, **options)


def _defaults(config, limit, given):
    """The decoding options and languages of a run's configuration, adjusted to those given."""
    if config is None:
        return {}
    languages = {name: config.options[name] for name in LANGUAGES}
    languages = {name: code for name, code in languages.items() if code is not None}
    options = {**(config.generation or {}), **languages}
    if given.get("temperature") is not None:
        options.pop("beam_size", None)  # Sampling takes none.
    if options.get("max_length") is not None:  # Fine-tuning may have lowered the limit.
        options["max_length"] = min(as_integer("max_length", options["max_length"]), limit)
    return options


def _with_card(models, tokenizer, arguments, card):
    translator = Translator(models, tokenizer, **arguments)
    translator.card = card
    return translator
