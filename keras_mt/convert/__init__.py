"""Other formats, each imported when it is used: the command's help needs `formats` alone."""

from keras_mt.extras import lazy

_HOMES = {"export": "formats", "trim": "trimming"}
_HOMES |= dict.fromkeys(("from_huggingface", "from_marian", "import_model"), "imports")

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES), __all__.copy
