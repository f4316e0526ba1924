"""Translation in Python with a SavedModel that `Translator.export` wrote."""

import functools
import hashlib
import importlib
import json
import os
from pathlib import Path

from keras_mt.errors import InputError
from keras_mt.files import find_saved_model
from keras_mt.options import TranslationOptions
from keras_mt.text.glossary import Glossary
from keras_mt.translation.interface import LANGUAGES, BaseTranslator

_NO_LIMIT = 2**31 - 1  # Bytes of a line.


class ExportedTranslator(BaseTranslator):
    """Translates with an exported SavedModel; its options were fixed at export.

    Args:
        directory: A version folder, such as `saved_models/pt_en/1`, or the folder above it, for
            its newest version.
        source_language, target_language: As for a `Translator`, in place of the export's.
        glossary: As for a `Translator`.

    Attributes:
        card: The model card, a dict.
        options: The options that it was exported with, `keras_mt.options.TranslationOptions`.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        source_language, target_language, glossary, markup: As for a `Translator`.

    Returns:
        As a `Translator`: for a str a str, for a list a list of str; for an export with `n_best`
        above 1 a list of str and a list of lists of str. For a tensor a string tensor
        `[batch, n_best]`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If a language is unknown or missing, or the card that lists them is missing; or
            if prefixes are given, which an export does not take, or a glossary to one that has
            neither of the signatures `align` and `score`, by which terms are placed.

    Example:

    >>> translator = ExportedTranslator("saved_models/pt_en")  # doctest: +SKIP
    >>> translator("O livro está em cima da mesa.")  # doctest: +SKIP
    'The book is on the table.'
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        source_language: str | None = None,
        target_language: str | None = None,
        glossary: Glossary | None = None,
    ):
        version = find_saved_model(directory)
        if version is None:
            raise FileNotFoundError(f"There is no SavedModel at {directory}, nor a version in it.")
        # What runs it is imported when it is needed, as TensorFlow takes seconds.
        engine = importlib.import_module("keras_mt.translation.sessions")
        self._version, self._saved_model = version, engine.SavedModel(version)
        self._read_card(version / "assets.extra" / "model_card.json")
        given = source_language, target_language
        defaults = [getattr(self.options, name) for name in LANGUAGES]
        codes = (code or default for code, default in zip(given, defaults, strict=True))
        self._set_languages(self.languages, *codes, defaults if self._is_of_a_pair else ())
        self._check_glossary(glossary)
        self.glossary = glossary

    def _read_card(self, path):
        """Sets the card, and what it says of the export."""
        try:
            self.card = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except ValueError as error:
            raise InputError(f"{path} is not JSON, as the export wrote it: {error}") from None
        inputs, outputs = self._saved_model.inputs, self._saved_model.outputs
        options, n_best = self.card.get("options", {}), self._saved_model.n_best
        self.reads_terms = options.get("reads_terms", False)
        self.trusted_attention = options.get("trusted_attention", False)
        known = TranslationOptions.__dataclass_fields__.keys() & options.keys()
        # Without a card nothing is kept, and the graph alone refuses long lines.
        unsaid = {"beam_size": n_best, "n_best": n_best, "keep": (), "max_line_bytes": _NO_LIMIT}
        self.options = TranslationOptions(**unsaid | {name: options[name] for name in known})
        self.supports_alignment = "align" in outputs
        self.supports_confidence = "confidence" in outputs
        self.supports_scores = "token_log_probs" in outputs.get("score", ())
        self._is_of_a_pair = False
        if any({*LANGUAGES} <= {*columns} for columns in inputs.values()):
            if not {*LANGUAGES} <= {*options} or "languages" not in self.card.get("tokenizer", {}):
                raise InputError(
                    f"{path} must say which languages there are, and the default ones: put it back "
                    "as the export wrote it."
                )
            self.languages = self.card["tokenizer"]["languages"]
            self._is_of_a_pair = bool(options.get("shortlist"))

    def __reduce__(self) -> tuple:
        arguments = self._version, self.source_language, self.target_language, self.glossary
        return type(self), arguments

    @property
    def fingerprint(self) -> str:
        """A digest of its files; two exports of one model have different ones."""
        digest = hashlib.blake2b(digest_size=16)
        terms = self.glossary and self.glossary.fingerprint
        digest.update(repr((self.source_language, self.target_language, terms)).encode())
        for path in sorted(filter(Path.is_file, self._version.rglob("*"))):
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()

    def _check_glossary(self, glossary):
        super()._check_glossary(glossary)
        if glossary is not None and not (self.supports_alignment or self.supports_scores):
            raise InputError(
                "This export takes no glossary: it has neither of the signatures align and score, "
                "by which terms are placed. Export the run again, or use the run folder."
            )

    def _check_asked(self, prefixes, token_scores, confidence):
        super()._check_asked(prefixes, token_scores=token_scores, confidence=confidence)
        if token_scores or prefixes is not None:
            raise InputError(
                "An export takes no prefixes and gives no token scores: use the run folder."
            )
        if confidence and not self.supports_confidence:
            raise InputError(
                "This export gives no confidence: make it with `keras-mt export --confidence`, or "
                "use the run folder."
            )

    def _function(self, name, columns, confidence=False, **_):
        if name == "translate":
            name = "confidence" if confidence else "serving_default"
        return functools.partial(self._saved_model.run, name)
