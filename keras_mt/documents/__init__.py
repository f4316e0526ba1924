"""Files to files: documents with their form kept, and lines of any number; both resumable."""

from keras_mt.documents.document import Document
from keras_mt.documents.resumable import translate_files

__all__ = ["Document", "translate_files"]
