"""SavedModels for TensorFlow Serving, and a translator that runs them in Python."""

from keras_mt.translation.exported import ExportedTranslator

__all__ = ["ExportedTranslator"]
