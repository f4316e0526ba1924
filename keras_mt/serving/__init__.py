"""SavedModels for a server, and read back as a server reads them."""

from keras_mt.serving.saved_model import ExportedTranslator, find_saved_model

__all__ = ["ExportedTranslator", "find_saved_model"]
