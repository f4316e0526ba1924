"""Translation in Python with an export: a SavedModel, or a folder for LiteRT."""

import functools
import hashlib
import json
import os
from pathlib import Path

from keras_mt.errors import InputError
from keras_mt.extras import needed
from keras_mt.files import MODEL_CARD, find_export, is_litert
from keras_mt.options import TranslationOptions
from keras_mt.text.glossary import Glossary
from keras_mt.translation.interface import LANGUAGES, BaseTranslator


class ExportedTranslator(BaseTranslator):
    """Translates with an export, as a `Translator` does; its options are fixed.

    Args:
        directory: A version folder of a SavedModel, such as `saved_models/pt_en/1`, or the folder
            above it, for its newest version; or a folder of `keras-mt export --format litert`,
            which needs neither TensorFlow nor Keras.
        source_language, target_language: As for a `Translator`, in place of the export's.
        glossary: As for a `Translator`.

    Attributes:
        card: The model card, a dict.
        options: The options that it was exported with, `keras_mt.options.TranslationOptions`.

    Raises:
        FileNotFoundError: If there is no export.
        ImportError: If what the export is run by is not installed.
        ValueError: If a language is unknown or missing, or the card that lists them is missing; or
            if a call has prefixes, or a glossary for an export that has neither of the signatures
            `align` and `score`, by which terms are placed.

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
        folder = find_export(directory)
        if folder is None:
            raise FileNotFoundError(f"There is no export at {directory}, nor a version in it.")
        self._folder = folder
        if is_litert(folder):
            card = folder / MODEL_CARD
            self._read_card(card)
            with needed("An export for LiteRT", "ai-edge-litert google-re2"):
                from keras_mt.translation.litert import LiteRTModel

            try:
                self._engine = LiteRTModel(folder, self.card, self.options)
            except (KeyError, TypeError) as error:
                raise _damaged(card, error) from None
        else:
            with needed("A SavedModel"):
                from keras_mt.translation.sessions import SavedModel  # It imports TensorFlow.

            self._engine = SavedModel(folder)
            card = folder / "assets.extra" / MODEL_CARD
            self._read_card(card)
        if bool(self.languages) != (LANGUAGES[0] in self._engine.inputs["serving_default"]):
            raise _damaged(card, KeyError("languages"))
        outputs = self._engine.outputs
        self.supports_alignment = "align" in outputs
        self.supports_confidence = "confidence" in outputs
        self.supports_scores = "token_log_probs" in outputs.get("score", ())
        defaults = self.options.source_language, self.options.target_language
        codes = source_language or defaults[0], target_language or defaults[1]
        is_of_a_pair = self.languages and self.card["options"].get("shortlist")
        self._set_defaults(self.languages, defaults if is_of_a_pair else (), codes, glossary)

    def _read_card(self, path):
        """Sets the card, and what it says of the export."""
        known = TranslationOptions.__dataclass_fields__
        try:
            self.card = json.loads(path.read_text(encoding="utf-8"))
            options = self.card["options"]
            self.options = TranslationOptions(**{n: x for n, x in options.items() if n in known})
            self.languages = self.card["tokenizer"].get("languages", ())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise _damaged(path, error) from None
        self.reads_terms = options.get("reads_terms", False)
        self.trusted_attention = options.get("trusted_attention", False)

    @property
    def fingerprint(self) -> str:
        """A digest of its files; two exports of one model have different ones."""
        digest = hashlib.blake2b(digest_size=16)
        terms = self.glossary and self.glossary.fingerprint
        digest.update(repr((self.source_language, self.target_language, terms)).encode())
        for path in sorted(filter(Path.is_file, self._folder.rglob("*"))):
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()

    def _check_asked(self, prefixes, token_scores, confidence):
        super()._check_asked(prefixes, token_scores=token_scores, confidence=confidence)
        if token_scores or prefixes is not None:
            raise InputError(
                "An export takes no prefixes and gives no token scores: use the run folder."
            )
        if confidence and not self.supports_confidence:
            raise InputError(
                "This export gives no confidence: make it with `keras-mt export --signatures "
                "serving_default,confidence`, or use the run folder."
            )

    def _function(self, name, columns, confidence=False, **_):
        name = "serving_default" if name == "translate" else name
        return functools.partial(self._engine.run, name, confidence)


def _damaged(path, error):
    """What to say of a card that cannot be read."""
    return InputError(
        f"{path} must be as the export wrote it, with its options and languages: put it back. "
        f"({error!r})"
    )
