"""The architectures: models composed of the layers."""

import importlib
import os
import sys

import keras

from keras_mt.errors import InputError
from keras_mt.models.decoder_only import DecoderOnly
from keras_mt.models.encoder_only import EncoderOnly
from keras_mt.models.mixins import ensure_built as ensure_built
from keras_mt.models.mixture_of_experts import MixtureOfExpertsTransformer
from keras_mt.models.recurrent import Recurrent
from keras_mt.models.seq2seq import Seq2Seq
from keras_mt.models.seq2seq import copy_of as copy_of
from keras_mt.models.transformer import PRESETS, Transformer

ARCHITECTURES = {
    "transformer": Transformer,
    "mixture_of_experts": MixtureOfExpertsTransformer,
    "recurrent": Recurrent,
    "decoder_only": DecoderOnly,
}

__all__ = [
    "ARCHITECTURES",
    "PRESETS",
    "DecoderOnly",
    "EncoderOnly",
    "MixtureOfExpertsTransformer",
    "Recurrent",
    "Seq2Seq",
    "Transformer",
]


def find_architecture(name: str | type) -> type:
    """The class of an architecture: by its name in `ARCHITECTURES`, by `MODULE:CLASS`, or itself.

    The module is imported with the current folder on the path.
    """
    if isinstance(name, type):
        return name
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    module, _, class_name = str(name).partition(":")
    if not (module and class_name):
        raise InputError(
            f"Unknown architecture {name!r}; there are {', '.join(ARCHITECTURES)}, and "
            "MODULE:CLASS for one of your own."
        )
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        architecture = getattr(importlib.import_module(module), class_name, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # The module is there, but not all that it imports.
        raise InputError(f"The architecture {name!r} has no module {module!r}.") from None
    finally:
        sys.path.remove(folder)
    if not isinstance(architecture, type):
        raise InputError(f"The module {module!r} has no class {class_name!r}.")
    if not issubclass(architecture, keras.Model):
        raise InputError(f"{name!r} is not a model: derive it from Seq2Seq and keras.Model.")
    return architecture


def architecture_name(architecture: str | type) -> str:
    """The name by which `find_architecture` finds an architecture."""
    if not isinstance(architecture, type):
        return architecture
    names = {known: name for name, known in ARCHITECTURES.items()}
    return names.get(architecture, f"{architecture.__module__}:{architecture.__qualname__}")
