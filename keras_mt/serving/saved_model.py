"""A SavedModel that `Translator.export` wrote, used from Python."""

import json
from pathlib import Path

import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the ops that the SavedModel holds

from keras_mt.translator import translate_texts


class ExportedTranslator:
    """Translates with an exported SavedModel alone; its options were fixed at the export.

    Args:
        directory: A version folder, such as `saved_models/pt_en/1`, or the folder above it, which
            means its newest version.

    Attributes:
        options: The options of the export, a dict.

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
        options = version / "assets.extra" / "config.json"
        self.options = json.loads(options.read_text(encoding="utf-8")) if options.exists() else {}

    def hypotheses(self, texts):
        """As `Translator.hypotheses`."""
        signature = self._model.signatures["serving_default"]
        return translate_texts(lambda text: signature(text=text), texts)


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
