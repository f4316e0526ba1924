"""Files to files: documents with their form kept, and lines of any number; both resumable."""

from keras_mt.documents.formats import DocumentOptions, Format, Refusal, Unit
from keras_mt.documents.run import Report, translate_files

__all__ = ["DocumentOptions", "Format", "Refusal", "Report", "Unit", "translate_files"]
