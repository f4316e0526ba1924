"""A SavedModel that `Translator.export` wrote, used from Python."""

import json
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the ops that the SavedModel holds

from keras_mt.translator import as_hypotheses, run_in_batches


class ExportedTranslator:
    """Translates with an exported SavedModel alone; its options were fixed at the export.

    Args:
        directory: A version folder, such as `saved_models/pt_en/1`, or the folder above it, which
            means its newest version.

    Attributes:
        card: The model's card, a dict with the export's `options` among others.

    Raises:
        FileNotFoundError: If there is no SavedModel.

    Example:

    >>> ExportedTranslator("saved_models/pt_en").hypotheses(["Olá!"])  # doctest: +SKIP
    """

    def __init__(self, directory):
        version = find_saved_model(directory)
        if version is None:
            raise FileNotFoundError(f"There is no SavedModel at {directory}, nor a version in it.")
        self._model = tf.saved_model.load(str(version))
        card = version / "assets.extra" / "model_card.json"
        self.card = json.loads(card.read_text(encoding="utf-8")) if card.exists() else {}

    @property
    def signatures(self):
        """The functions of tensors by name."""
        return self._model.signatures

    def hypotheses(self, texts, prefixes=None, token_scores=False):
        """As `Translator.hypotheses`; an export has neither prefixes nor token scores."""
        if prefixes is not None or token_scores:
            raise ValueError("An export takes no prefixes and gives no token scores: use the run.")
        signature = self.signatures["serving_default"]
        rows = run_in_batches(lambda text: signature(text=text), texts)
        return [as_hypotheses(row) for row in rows]


def find_saved_model(directory):
    """The SavedModel at a version folder, or the newest below a model's folder; None if neither."""
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    versions = [
        path
        for path in (directory.iterdir() if directory.is_dir() else ())
        if path.name.isdigit() and (path / "saved_model.pb").is_file()
    ]
    return max(versions, key=lambda path: int(path.name), default=None)
