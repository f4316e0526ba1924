"""The model of a run: a new one, that of the run that is resumed, or a copy of another run's."""

import inspect
from typing import Any, NamedTuple

import keras

from keras_mt.errors import InputError
from keras_mt.models import copy_of, ensure_built, find_architecture
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.training.lora import digest

# Arguments of models that are options of training too.
_SHARED_ARGUMENTS = ("max_length", "dropout", "dtype")


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


def known_architecture(options: TrainingOptions, begun: RunConfig | None) -> type | None:
    """The class to be trained, as far as options tell and those of the run that goes on.

    None for that of `init`, and for a class that only a file names: files alone import nothing.
    """
    before = TrainingOptions() if begun is None else begun.options
    name = options.architecture or before.architecture or "transformer"
    from_file = options.architecture is None and ":" in name
    if options.init is not None or before.init is not None or from_file:
        return None
    return find_architecture(name)


def check_arguments(options: TrainingOptions, architecture: type) -> None:
    """Refuses, before anything is read, arguments that the model does not have."""
    preset_of(architecture, options.preset)
    takes = _constructor_arguments(architecture)
    given = [name for name in ("dropout", "dtype") if getattr(options, name) is not None]
    for name in [*given, *(options.model or {})]:
        if name in ("vocab_size", "padding_id"):
            raise InputError(f"{name!r} is the tokenizer's: give vocab_size, or another tokenizer.")
        if name not in takes:
            known = ", ".join(map(repr, takes))
            raise InputError(f"{architecture.__name__} has no argument {name!r}: it has {known}.")


def preset_of(architecture: type, name: str | None) -> tuple[str | None, dict[str, Any]]:
    """The name of a preset of an architecture, its first one for None, and what it holds."""
    presets = getattr(architecture, "presets", {})
    if name is None:
        name = next(iter(presets), None)
    elif name not in presets:
        raise InputError(f"Unknown preset {name!r}; there are {', '.join(presets) or 'none'}.")
    return name, presets.get(name, {"model": {}, "training": {}})


def make_model(
    config: RunConfig,
    tokenizer: BaseTokenizer,
    base: Base | None = None,
    given: str | type | None = None,
) -> keras.Model:
    """The model of a run; `given` is the user's `architecture`: files alone import nothing."""
    if base is not None:
        return _copy(base, config.options)
    architecture = _architecture(config.options, given)
    if config.model_config is None:
        return _new(architecture, config.options, tokenizer.vocab_size, tokenizer.padding_id)
    try:
        return ensure_built(architecture.from_config(config.model_config))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"config.json's model_config cannot be made: {error!r}") from error


def check_model(config: RunConfig, base: Base | None, given: TrainingOptions) -> None:
    """Refuses early, before anything is encoded or written, a model that `make_model` cannot make.

    A new one is made to try out the arguments that were given, a copy if its limit is another.
    """
    options = config.options
    if base is not None:
        limit = base.model.get_config().get("max_length", options.max_length)
        if limit != options.max_length:
            _copy(base, options)
        return
    architecture = _architecture(options, given.architecture)
    if config.model_config is not None or not (given.model or ":" in options.architecture):
        return
    try:
        _new(architecture, options, 300, 0)
    except Exception as error:
        raise InputError(
            f"{architecture.__name__} cannot be made with {options.model or {}}: "
            f"{str(error).rstrip('.')}. "
            f"Its arguments are {', '.join(map(repr, _constructor_arguments(architecture)))}."
        ) from error


def _architecture(options, given):
    """The class of a run's model, which the user gives (`given`) if it is none of keras_mt's."""
    if given is None and ":" in options.architecture:
        raise InputError(
            f"The run's model is a {options.architecture!r}, which is none of keras_mt's own: give "
            "this class as `architecture`."
        )
    return find_architecture(given or options.architecture)


def _new(architecture, options, vocab_size, padding_id):
    arguments = _arguments(architecture, options, vocab_size, padding_id)
    return ensure_built(architecture(**arguments))


def _arguments(architecture, options, vocab_size, padding_id):
    """The arguments of an architecture's constructor."""
    shared = {name: getattr(options, name) for name in _SHARED_ARGUMENTS}
    shared |= {"vocab_size": vocab_size, "padding_id": padding_id}
    takes = _constructor_arguments(architecture)
    shared = {name: value for name, value in shared.items() if name in takes and value is not None}
    _, preset = preset_of(architecture, options.preset)
    return {**preset["model"], **shared, **(options.model or {})}


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
    changes = {n: getattr(options, n) for n in _SHARED_ARGUMENTS if n in takes}
    changes = {name: value for name, value in changes.items() if value is not None}
    try:
        return copy_of(base.model, **changes)
    except ValueError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        raise InputError(
            f"The model of {base.folder} cannot be copied with {given}. A model that learns its "
            f"positions keeps its max_length. ({' '.join(str(error).split())[:200]})"
        ) from error
