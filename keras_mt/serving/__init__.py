"""SavedModels for TensorFlow Serving, and a translator that runs them in Python."""

from keras_mt.serving.saved_model import ExportedTranslator, find_saved_model

__all__ = ["ExportedTranslator", "find_saved_model"]
