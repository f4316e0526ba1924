"""Files to files: documents with their form kept, and lines of any number; both resumable."""

from keras_mt.documents.document import Document, DocumentOptions, Refusal, Unit
from keras_mt.documents.resumable import Report, translate_files

__all__ = ["Document", "DocumentOptions", "Refusal", "Report", "Unit", "translate_files"]
