"""Neural machine translation for Keras 3."""

import importlib
import sys
from typing import Any

if [*sys.argv[:1], *sys.orig_argv[-len(sys.argv) :][:1]] == ["-m", "keras_mt"]:
    # `python -m keras_mt`, which imports the package before it runs __main__.py: start the command
    # as `keras-mt` does, which imports Keras later and hides what TensorFlow says then.
    sys.argv[0] = "keras-mt"
    import keras_mt_command

    keras_mt_command.main()

import keras

from keras_mt import layers, losses, metrics, models, schedules
from keras_mt.extras import require_backend
from keras_mt.models import Transformer
from keras_mt.schedules import WarmupInverseSquareRoot
from keras_mt.version import __version__

# These need TensorFlow; the layers and models above run on every Keras backend without it.
_LAZY = {
    "ExportedTranslator": "keras_mt.translation.exported",
    "Glossary": "keras_mt.text.glossary",
    "Tokenizer": "keras_mt.text",
    "Translator": "keras_mt.translation",
}
_LAZY |= dict.fromkeys(("alignment", "convert", "data", "decoding", "documents"))
_LAZY |= dict.fromkeys(("plots", "text", "training", "translation"))

__all__ = [
    "Transformer",
    "WarmupInverseSquareRoot",
    "__version__",
    "layers",
    "losses",
    "metrics",
    "models",
    "schedules",
]
if keras.backend.backend() == "tensorflow":
    __all__ += list(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'keras_mt' has no attribute {name!r}")
    require_backend(f"keras_mt.{name}")
    home = _LAZY[name]
    if home is None:
        return importlib.import_module(f"keras_mt.{name}")
    return getattr(importlib.import_module(home), name)
