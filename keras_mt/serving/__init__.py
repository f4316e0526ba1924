"""SavedModels for TensorFlow Serving, and a translator that runs them in Python."""

from keras_mt.deprecation import moved
from keras_mt.translation.exported import ExportedTranslator

__all__ = ["ExportedTranslator"]

__getattr__ = moved(__name__, {"find_saved_model": "keras_mt.files.find_saved_model"})
