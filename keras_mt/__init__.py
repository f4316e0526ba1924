"""Neural machine translation for Keras 3."""

import os
import sys
from typing import Any

from keras_mt.extras import lazy, require_backend, use_onednn
from keras_mt.logs import has_gpu, hushed
from keras_mt.version import __version__

if [*sys.argv[:1], *sys.orig_argv[-len(sys.argv) :][:1]] == ["-m", "keras_mt"]:
    # `python -m keras_mt`, which imports the package before it runs __main__.py: start the command
    # as `keras-mt` does, which imports Keras later and hides what TensorFlow says then.
    before = sys.orig_argv[1 : -len(sys.argv)]
    os.execv(sys.executable, [sys.executable, *before, "keras_mt_command", *sys.argv[1:]])

use_onednn()
try:
    with hushed():
        import keras

        if keras.backend.backend() == "tensorflow" and not has_gpu():
            import tensorflow as tf

            tf.config.list_physical_devices()  # It says, as an error, that there is no GPU.
except ModuleNotFoundError as error:
    if error.name not in ("keras", "tensorflow"):
        raise
    keras = None  # Exports for LiteRT need neither.
else:  # At once, since Keras loads only layers and models that are registered.
    from keras_mt import layers, losses, metrics, models, schedules
    from keras_mt.models import Transformer
    from keras_mt.schedules import WarmupInverseSquareRoot

# These need neither Keras nor TensorFlow, and these both; what is imported above needs Keras alone.
_LIGHT = {"ExportedTranslator": "translation", "Glossary": "text"}
_LIGHT |= {room: room for room in ("documents", "text", "translation")}
_HEAVY = {"Tokenizer": "text", "Translator": "translation"}
_HEAVY |= {room: room for room in ("alignment", "convert", "data", "decoding", "plots", "training")}

__all__ = ["Transformer", "WarmupInverseSquareRoot", "__version__", "layers", "losses", "metrics"]
__all__ += ["models", "schedules"]
_KERAS = {*__all__, *_HEAVY}
if keras is None:
    __all__ = ["__version__"]
elif keras.backend.backend() == "tensorflow":
    __all__ += list(_HEAVY)
__all__ += list(_LIGHT)

_get = lazy(__name__, _LIGHT | _HEAVY)


def __getattr__(name: str) -> Any:
    if name in _KERAS:
        require_backend(f"keras_mt.{name}")
    return _get(name)
