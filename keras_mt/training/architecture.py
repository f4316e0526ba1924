"""The model of a run: a new one, that of the run that is resumed, or a copy of another run's."""

import inspect
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.models import copy_of, ensure_built, find_architecture
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.training.lora import digest


class Base(NamedTuple):
    """The run that another one begins from."""

    folder: RunFolder
    config: RunConfig | None
    model: keras.Model
    digest: str | None  # Of the model's weights, where they stay under adapters.

    def check_unchanged(self, begun: RunConfig) -> None:
        """Refuses other weights under adapters than those that they were trained on."""
        if begun.fingerprints["init"] != self.digest:
            raise InputError(
                f"The weights of {self.folder} have changed since the run began, and the run's "
                "checkpoints hold only what is added to them: put them back, or give another "
                "output folder."
            )


def load_base(
    options: TrainingOptions, architecture: str | type | None, resumed: bool
) -> Base | None:
    """The run that `init` names; None without one, or where a run has all its weights already."""
    if options.init is None or (resumed and options.lora_rank is None):
        return None
    folder = RunFolder(options.init)
    model = folder.load_model(architecture)
    return Base(folder, folder.config, model, options.lora_rank and digest(model))


def preset_of(architecture: type, name: str | None) -> tuple[str | None, dict[str, Any]]:
    """The name of a preset of an architecture, its first one for None, and what it holds."""
    presets = getattr(architecture, "presets", {})
    if name is None:
        name = next(iter(presets), None)
    elif name not in presets:
        raise InputError(f"Unknown preset {name!r}; there are {', '.join(presets) or 'none'}.")
    return name, presets.get(name, {"model": {}, "training": {}})


def make_model(
    config: RunConfig, tokenizer: BaseTokenizer, base: Base | None, given: str | type | None
) -> keras.Model:
    """The model of a run; `given` is the user's `architecture`: files alone import nothing."""
    options = config.options
    if base is not None:
        return _copy(base, options)
    if given is None and ":" in options.architecture:
        raise InputError(
            f"{options.architecture!r} is no model of keras_mt's own: give it as `architecture`."
        )
    architecture = find_architecture(given or options.architecture)
    if config.model_config is None:
        return _new(architecture, options, tokenizer)
    try:
        return ensure_built(architecture.from_config(config.model_config))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"config.json's model_config cannot be made: {error!r}") from error


def _new(architecture, options, tokenizer):
    takes = _constructor_arguments(architecture)
    offered = {
        "vocab_size": tokenizer.vocab_size,
        "padding_id": tokenizer.padding_id,
        "max_length": options.max_length,
    }
    arguments = preset_of(architecture, options.preset)[1]["model"] | {
        name: value for name, value in offered.items() if name in takes
    }
    if options.dropout is not None:
        arguments["dropout"] = options.dropout
    if "dtype" in takes or options.dtype not in (None, "float32"):
        arguments["dtype"] = options.dtype
    arguments |= options.model or {}
    try:
        if unknown := [name for name in arguments if name not in takes]:
            raise TypeError(f"it has no argument {unknown[0]!r}")
        return ensure_built(architecture(**arguments))
    except tf.errors.OpError:  # Memory that does not suffice, or a worker that has died.
        raise
    except Exception as error:
        raise InputError(
            f"{architecture.__name__} cannot be made with {options.model or {}}: "
            f"{str(error).rstrip('.')}. Its arguments are {', '.join(map(repr, takes))}."
        ) from error


def _constructor_arguments(architecture):
    """The names that a class takes, with those that it passes on to a base class of ours."""
    names = {}
    for base in architecture.__mro__:
        if base.__module__.startswith("keras."):
            break
        if "__init__" in vars(base):
            parameters = inspect.signature(base).parameters
            variable = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
            names |= {n: 0 for n, p in parameters.items() if p.kind not in variable and n[0] != "_"}
            if all(p.kind != inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
                break
    return list(names)


def _copy(base, options):
    """A copy of the model that a run begins from, with the run's dropout, limit and dtype."""
    takes = base.model.get_config()
    changes = {n: getattr(options, n) for n in ("max_length", "dropout", "dtype") if n in takes}
    changes = {name: value for name, value in changes.items() if value is not None}
    try:
        return copy_of(base.model, **changes)
    except ValueError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        raise InputError(
            f"The model of {base.folder} cannot be copied with {given}. A model that learns its "
            f"positions keeps its max_length. ({' '.join(str(error).split())[:200]})"
        ) from error
