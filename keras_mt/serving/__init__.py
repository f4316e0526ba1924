"""SavedModels for a server, and read back as a server reads them."""

from keras_mt.serving.export import export
from keras_mt.serving.saved_model import ExportedTranslator, find_saved_model

__all__ = ["ExportedTranslator", "export", "find_saved_model"]
