"""Strings to strings, from a model and a tokenizer."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Sequence
from typing import Any, Self

import tensorflow as tf

from keras_mt.alignment import Shortlist
from keras_mt.errors import InputError
from keras_mt.extras import require_backend
from keras_mt.inference.graph import TranslationGraph, on_lists
from keras_mt.inference.predictors import Predictor
from keras_mt.models import Seq2Seq, ensure_built
from keras_mt.options import TranslationOptions
from keras_mt.options.fields import as_integer, documented, from_keywords, signature
from keras_mt.run_folder import RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.text.glossary import Glossary
from keras_mt.translation.interface import LANGUAGES, BaseTranslator

# What a model's configuration has that its translations do not depend on.
_NAMES = "name", "trainable", "frozen"


class Translator(BaseTranslator):
    """Translates strings with beam search.

    A text of more tokens than the model's limit is translated in parts, cut after sentences or, if
    need be, between words, and the translations are joined.

    Args:
        model: A `keras_mt.Transformer` or another `keras_mt.models.Seq2Seq`; or a list of them, of
            any architectures, that share a vocabulary: an ensemble, whose log-probabilities are
            averaged.
        tokenizer: The `keras_mt.Tokenizer`, or another `keras_mt.text.BaseTokenizer`, that the
            model was trained with.
        shortlist: A `Shortlist` of the tokens that translations may hold, or None. It does not go
            with a `temperature`, and leaves a model of several languages only its own pair.
        glossary: A `keras_mt.Glossary`, whose terms translations hold for those of their sources,
            for calls that give none; also an attribute.
        {options}

    Attributes:
        options: The options, `keras_mt.options.TranslationOptions`.
        source_language, target_language: For a model of several languages, the default codes of
            the languages to translate from and into.
        card: Fields for the model card of exports, a dict; `load` fills it.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        prefixes: What each translation must begin with, of the same type as `texts`, or None. A
            text that is translated in parts (lines, sentences) takes that of its first part.
        source_language, target_language: For a model of several languages: one code for all texts,
            or a list with one for each (for a tensor of texts, a string tensor `[batch]`). None, or
            "", means the translator's default.
        glossary: A `keras_mt.Glossary` in place of the translator's own, or a list with one for
            each text; None for its own.
        markup: "html" if the texts are fragments of HTML, whose elements are put around what their
            words became (see `keras_mt.text.Source`).

    Returns:
        For a str a str, for a list a list of str; with `n_best` > 1 a list of str and a list of
        lists of str, best first. For a tensor a string tensor `[batch, n_best]`, in a
        `tf.data.Dataset` too, whose graph then calls Python and cannot be saved.

    Raises:
        ValueError: If an option is out of range, model and tokenizer do not match, an argument has
            the wrong type, a language is unknown or missing, or a text is refused (see
            `hypotheses`). In a tensor, the row of such a text is empty instead.

    Example:

    >>> translator = Translator.load("runs/pt_en")  # doctest: +SKIP
    >>> translator("O livro está em cima da mesa.")  # doctest: +SKIP
    'The book is on the table.'
    """

    def __init__(
        self,
        model: Seq2Seq | Sequence[Seq2Seq],
        tokenizer: BaseTokenizer,
        *,
        shortlist: Shortlist | None = None,
        glossary: Glossary | None = None,
        **options: Any,
    ):
        require_backend("keras_mt.Translator")
        self.models = list(model) if isinstance(model, (list, tuple)) else [model]
        _check_types(model, self.models, tokenizer)
        for model in self.models:
            _check_fits(ensure_built(model), tokenizer)
        self.options = from_keywords(TranslationOptions, "Translator", options)
        self.tokenizer, self.shortlist = tokenizer, shortlist
        codes = self.options.source_language, self.options.target_language
        if shortlist is not None:
            self._check_shortlist(*codes)
        pair = shortlist.languages if shortlist else ()
        self._set_defaults(tokenizer.languages, pair, codes, glossary)
        self.card: dict[str, Any] = {}
        predictor = Predictor(self.models, shortlist)
        self._graph, self._functions = self.graph(predictor), {}
        self._check_lengths()
        self.trusted_attention = predictor.trusted_attention
        self.reads_terms = bool(tokenizer.term_markers and predictor.reads_terms)

    def _check_shortlist(self, *languages):
        """Refuses what is no shortlist, one of other languages, and one for samples."""
        if not isinstance(self.shortlist, Shortlist):
            raise InputError(
                "shortlist must be a Shortlist, such as from Shortlist.load. "
                f"Received: {self.shortlist!r}"
            )
        self.shortlist.check_fits(self.tokenizer, *languages)
        if self.options.samples:
            raise InputError(
                "A shortlist does not go with sampling: leave `temperature` out. "
                f"Received: temperature={self.options.temperature}"
            )

    def _check_lengths(self):
        """Refuses lengths of translations that the models cannot have."""
        limit = self._graph.predictor.max_length
        max_length, min_length = self.options.max_length, self.options.min_length
        if max_length is not None and not 1 <= max_length <= limit:
            raise InputError(
                f"max_length must be at least 1 and at most the model's {limit}. "
                f"Received: max_length={max_length}"
            )
        if min_length > (max_length or limit):
            raise InputError(
                f"min_length must be at most {max_length or limit}, the maximum length. "
                f"Received: min_length={min_length}"
            )

    def graph(self, predictor: Predictor, **options: Any) -> TranslationGraph:
        """The functions of string tensors that translate, score and align as this translator does.

        The `predictor` takes the place of its own; `options` are fields of `TranslationOptions`.
        """
        languages = {name: getattr(self, name) for name in LANGUAGES}
        options = dataclasses.replace(self.options, **{**languages, **options})
        return TranslationGraph(predictor, self.tokenizer, options, self._codes)

    def _function(self, name, columns, **flags):
        flags = {flag: True for flag, is_set in flags.items() if is_set}
        function = functools.partial(getattr(self._graph, name), **flags)
        if tf.config.functions_run_eagerly():
            return on_lists(function)
        key = name, *columns, *flags
        if key not in self._functions:
            specs = {column: tf.TensorSpec([None], tf.string) for column in columns}
            # Traced in this thread, since Keras's settings are local. Nothing in it needs
            # AutoGraph, which would take most of the time.
            function = tf.function(function, autograph=False)
            self._functions[key] = on_lists(function.get_concrete_function(**specs))
        return self._functions[key]

    @property
    def supports_alignment(self) -> bool:
        """True if the model has attention weights for `align`."""
        return self._graph.supports_alignment

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
            run_dir: Folder with `model.keras` and `tokenizer.model`; or the name of a model on the
                Hugging Face hub, such as `Helsinki-NLP/opus-mt-en-de` or `hf:NAME`, which is
                imported once; or a list of such whose tokenizers are the same, an ensemble.
            architecture: `MODULE:CLASS`, or the class, of a model that is not one of keras_mt's
                own; or a list of such.
            dtype: Dtype of weights and computation, such as "bfloat16"; None for the file's.
            **options: `beam_size` and the other options of the constructor.

        Raises:
            FileNotFoundError: If a file is missing; the message says which.
            ValueError: If tokenizers differ, a class is unknown, or an option is invalid.
        """
        from keras_mt.convert.hub import local_run  # It imports this module.

        run_dirs = run_dir if isinstance(run_dir, (list, tuple)) else [run_dir]
        if not run_dirs or not all(isinstance(x, (str, os.PathLike)) for x in run_dirs):
            raise InputError(f"run_dir must be a folder, or a list of folders. Received: {run_dir}")
        folders = [RunFolder(local_run(folder)) for folder in run_dirs]
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
    def fingerprint(self) -> str:
        """A digest of all that its translations and scores depend on."""
        arguments, shortlist = self._arguments(), self.shortlist
        if shortlist is not None:
            tables = shortlist.table.tobytes(), shortlist.always.tobytes()
            arguments["shortlist"] = shortlist.fingerprint, shortlist.languages, *tables
        if self.glossary is not None:
            arguments["glossary"] = self.glossary.fingerprint
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
        """A translator with the same models, and some options of the constructor changed.

        Example:

        >>> translator.with_options(no_repeat_ngram_size=3)("O livro.")  # doctest: +SKIP
        """
        arguments = self._arguments()
        if options.get("temperature") is not None:
            arguments["beam_size"] = None  # Sampling takes none.
        translator = Translator(self.models, self.tokenizer, **{**arguments, **options})
        translator.card = self.card
        return translator

    def _arguments(self):
        """The constructor's arguments, but for models and tokenizer."""
        others = {name: getattr(self, name) for name in (*LANGUAGES, "shortlist", "glossary")}
        return dataclasses.asdict(self.options) | others

    def export(self, directory: str | os.PathLike, dtype: str = "float32", **options: Any) -> None:
        """Exports a SavedModel that TensorFlow Serving loads: strings in, translations out.

        Its signature `serving_default` takes `text`, string `[batch]`, and for a model of several
        languages `source_language` and `target_language`, "" for the translator's default. It
        returns `translations`, string `[batch, n_best]`, best first, and `scores`, float32
        `[batch, n_best]`; a row with an unknown code is empty, with the score -1e9. There are also
        `greedy`, greedy search; `score`, log-probabilities of given translations; and `align`,
        translations with soft alignments, if the model has attention. To run, it needs tensorflow
        and tensorflow_text, but not keras_mt. The write is atomic.

        Args:
            directory: The version folder to write, such as `saved_models/pt_en/1`.
            dtype: Dtype of the weights and of the computation: "float32", "bfloat16" or "float16".
            **options: `card` is a dict of fields for the model card. `signatures` lists those to
                write; None for all but `confidence`, which is `serving_default` with measures of
                confidence.

        Raises:
            FileExistsError: If the directory exists.
            ValueError: If `dtype` is float16 and the model is a T5, a signature is unknown, or the
                graph has an op that TensorFlow Serving has not.

        Example:

        >>> translator.export("saved_models/pt_en/1", dtype="bfloat16")  # doctest: +SKIP
        """
        from keras_mt.convert.saved_model import to_saved_model  # It imports this module.

        to_saved_model(self, directory, dtype, **options)


def _check_types(model, models, tokenizer):
    """Refuses what is no tokenizer, or no model or list of models; `models` is it as a list."""
    if not isinstance(tokenizer, BaseTokenizer):
        raise InputError(
            "tokenizer must be a keras_mt.text.BaseTokenizer, such as from Tokenizer.load. "
            f"Received: {tokenizer!r}"
        )
    if not models or not all(isinstance(model, Seq2Seq) for model in models):
        raise InputError(
            "model must be a keras_mt.models.Seq2Seq, or a list of at least one. "
            f"Received: {model!r}"
        )


def _check_fits(model, tokenizer):
    """Refuses a model that was not trained with the tokenizer."""
    for side in ("source", "target"):
        sizes = [getattr(part, f"{side}_vocab_size") for part in (model, tokenizer)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"The model has a {side} vocabulary of {sizes[0]} tokens and the tokenizer one of "
                f"{sizes[1]}: they were not trained together."
            )
    if model.padding_id != tokenizer.padding_id:
        raise InputError(
            f"The model's padding_id is {model.padding_id} and the tokenizer's "
            f"{tokenizer.padding_id}: build the model with the tokenizer's padding_id."
        )


def _defaults(config, limit, given):
    """The decoding options and languages of a run's configuration, adjusted to those given."""
    if config is None:
        return {}
    languages = {name: code for name, code in config.languages.items() if code is not None}
    options = {**(config.generation or {}), **languages}
    if given.get("temperature") is not None:
        options.pop("beam_size", None)  # Sampling takes none.
    if options.get("max_length") is not None:  # Fine-tuning may have lowered the limit.
        options["max_length"] = min(as_integer("max_length", options["max_length"]), limit)
    return options


documented(Translator, TranslationOptions)
Translator.__signature__ = signature(Translator, TranslationOptions)
