"""A SavedModel that `Translator.export` wrote, used from Python."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the ops that the SavedModel holds

from keras_mt.translation.translator import (
    BaseTranslator,
    Codes,
    Hypothesis,
    as_hypotheses,
    as_list,
    run_in_batches,
)


class ExportedTranslator(BaseTranslator):
    """Translates with an exported SavedModel alone; its options were fixed at the export.

    Args:
        directory: A version folder, such as `saved_models/pt_en/1`, or the folder above it, which
            means its newest version.
        source_language, target_language: As of a `Translator`, in place of the export's.

    Attributes:
        card: The model's card, a dict with the export's `options` among others.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        source_language, target_language: As of a `Translator`.

    Returns:
        What a `Translator` returns: for a str a str, for a list a list of str (lists of them, of an
        export with `n_best` above 1), for a tensor a string tensor `[batch, n_best]`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If a language is unknown or not given.

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
    ):
        version = find_saved_model(directory)
        if version is None:
            raise FileNotFoundError(f"There is no SavedModel at {directory}, nor a version in it.")
        self._model = tf.saved_model.load(str(version))
        card = version / "assets.extra" / "model_card.json"
        self.card = json.loads(card.read_text(encoding="utf-8")) if card.exists() else {}
        languages, own = [], {"source_language": None, "target_language": None}
        if any(
            own.keys() <= s.structured_input_signature[1].keys() for s in self.signatures.values()
        ):
            languages = self.card["tokenizer"]["languages"]
            own = {name: self.card["options"][name] for name in own}
        self._set_languages(
            languages,
            source_language or own["source_language"],
            target_language or own["target_language"],
        )

    @property
    def signatures(self) -> Mapping[str, Callable]:
        """The functions of tensors by name."""
        return self._model.signatures

    @property
    def _n_best(self):
        return self.signatures["serving_default"].structured_outputs["translations"].shape[1]

    def _translations(self, texts, prefixes=None, **languages):
        _check_plain(prefixes)
        return self.signatures["serving_default"](text=texts, **languages)["translations"]

    def hypotheses(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        token_scores: bool = False,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[list[Hypothesis] | None]:
        """As `Translator.hypotheses`; an export has neither prefixes nor token scores."""
        _check_plain(prefixes, token_scores)
        texts = as_list("texts", texts)
        languages = self._languages(len(texts), source_language, target_language)
        signature = self.signatures["serving_default"]

        def translate(text, *codes):
            return signature(text=text, **dict(zip(languages, codes, strict=True)))

        return [as_hypotheses(row) for row in run_in_batches(translate, texts=texts, **languages)]


def _check_plain(prefixes, token_scores=False):
    if prefixes is not None or token_scores:
        raise ValueError("An export takes no prefixes and gives no token scores: use the run.")


def find_saved_model(directory: str | os.PathLike) -> Path | None:
    """The SavedModel at a version folder, or the newest below a model's folder; None if neither.

    Example:

    >>> find_saved_model("saved_models/en_de").name  # doctest: +SKIP
    '2'
    >>> find_saved_model("no_such_folder")
    """
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    versions = [
        path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdigit() and (path / "saved_model.pb").is_file()
    ]
    return max(versions, key=lambda path: int(path.name), default=None)
