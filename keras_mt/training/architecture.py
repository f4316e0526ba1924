"""Which model a run trains: a new one, one to resume, or a copy of another run's."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.models import copy_of, ensure_built, find_architecture
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.training.distribution import is_chief
from keras_mt.training.lora import digest

# Arguments of models that are options of training too.
_SHARED_ARGUMENTS = ("max_length", "dropout", "dtype")


@dataclasses.dataclass
class Run:
    """What the parts of a training share.

    `options` are filled in once they are known; `recommended` are those fitted to the corpus, or
    None. `chief` says whether this process writes and reports, `in_cluster` whether other
    processes, maybe on other machines, share the folder.
    """

    folder: RunFolder
    options: TrainingOptions
    strategy: tf.distribute.Strategy = dataclasses.field(default_factory=tf.distribute.get_strategy)
    corpora: Sequence[str] = ()
    source: str = ""
    target: str = ""
    report: Callable[[str], Any] = print
    recommended: dict[str, Any] | None = None
    config: RunConfig | None = None
    pairs: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self.chief = is_chief(self.strategy)
        self.in_cluster = self.strategy.cluster_resolver is not None
        self.report = self.report if self.chief else lambda message: None

    def keep(self, **values: Any) -> None:
        """Changes the configuration, and writes it if it is not what the folder has."""
        self.config = dataclasses.replace(self.config, **values)
        if self.chief and self.config != self.folder.config:
            self.folder.write_config(self.config)

    def keep_tokenizer(self, tokenizer: BaseTokenizer) -> None:
        """Writes the tokenizer, unless the folder has it."""
        if self.chief and not self.folder.tokenizer_path.exists():
            self.folder.save_tokenizer(tokenizer)

    @property
    def temporary(self) -> Path | None:
        """The folder for large temporary files; None for the system's, which no machine shares."""
        return None if self.in_cluster else self.folder.path

    @property
    def directions(self) -> list[tuple[str, str, str]]:
        """Each corpus with the codes of its source and its target."""
        if self.pairs is None:
            return [(data, self.source, self.target) for data in self.corpora]
        return [(data, *pair.split("-")) for pair, data in self.pairs.items()]

    @property
    def measured(self) -> list[tuple[str, str, str]]:
        """The directions whose validation splits are measured: the first, or all pairs."""
        return self.directions if self.pairs is not None else self.directions[:1]

    @property
    def codes(self) -> list[str]:
        """The languages of the pairs, in their order; none without pairs."""
        return list(dict.fromkeys(code for pair in self.pairs or () for code in pair.split("-")))

    @functools.cached_property
    def begun(self) -> RunConfig | None:
        """The configuration that the folder had at first."""
        return self.folder.config

    @functools.cached_property
    def resumed(self) -> RunConfig | None:
        """That configuration if there is a checkpoint to go on from."""
        return None if self.folder.last_checkpoint is None else self.begun

    @functools.cached_property
    def base(self) -> "Base | None":
        """The run that `init` names; None without one, or where the run has its model already."""
        options = self.options
        if options.init is None or (self.resumed and options.lora_rank is None):
            return None
        folder = RunFolder(options.init)
        return Base(folder, folder.load_model(options.architecture))


class Base(NamedTuple):
    """The run that another one begins from: its folder and its model."""

    folder: RunFolder
    model: keras.Model

    def check_unchanged(self, begun: RunConfig) -> None:
        """Refuses other weights under adapters than those that they were trained on."""
        if begun.fingerprints["init"] != digest(self.model):
            raise InputError(
                f"The weights of {self.folder} have changed since the run began, and the run's "
                "checkpoints hold only what is added to them: put them back, or give another "
                "output folder."
            )


def check_architecture(options: TrainingOptions) -> None:
    """Refuses, before anything is read, arguments that the model does not have."""
    if options.init is not None:
        return
    architecture = find_architecture(options.architecture or "transformer")
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


def model_builder(run: Run) -> Callable[[BaseTokenizer], keras.Model]:
    """A function from a tokenizer to the run's model; refuses one that cannot be made."""
    options, config, begun = run.options, run.config, run.resumed
    if run.base is not None:
        if config.options["max_length"] != getattr(run.base.model, "max_length", None):
            _copy(run)
        return lambda tokenizer: _copy(run)
    if begun is not None:
        name = begun.options["architecture"]
        if options.architecture is None and ":" in name:  # Files alone never cause an import.
            raise InputError(
                f"The run's model is a {name!r}, which is none of keras_mt's own: give this class "
                "as `architecture`."
            )
        architecture = find_architecture(options.architecture or name)
        return lambda tokenizer: _model_of(begun, architecture)
    architecture = find_architecture(options.architecture or "transformer")

    def build(vocab_size, padding_id):
        ids = {"vocab_size": vocab_size, "padding_id": padding_id}
        return architecture(**_arguments(architecture, config, ids))

    given = options.model != (run.recommended or {}).get("model")
    if given or ":" in config.options["architecture"]:
        try:
            build(300, 0)
        except Exception as error:
            raise InputError(
                f"{architecture.__name__} cannot be made with {options.model or {}}: "
                f"{str(error).rstrip('.')}. "
                f"Its arguments are {', '.join(map(repr, _constructor_arguments(architecture)))}."
            ) from error
    return lambda tokenizer: ensure_built(build(tokenizer.vocab_size, tokenizer.padding_id))


def _arguments(architecture, config, ids):
    """What the constructor of an architecture is given."""
    shared = {name: config.options[name] for name in _SHARED_ARGUMENTS} | ids
    takes = _constructor_arguments(architecture)
    shared = {name: value for name, value in shared.items() if name in takes and value is not None}
    _, preset = preset_of(architecture, config.options["preset"])
    return {**preset["model"], **shared, **(config.options["set"] or {})}


def _model_of(begun, architecture):
    try:
        return ensure_built(architecture.from_config(begun.model))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"config.json's model cannot be made: {error!r}") from error


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


def _copy(run):
    """A copy of the model that a run begins from, with the run's dropout, limit and dtype."""
    base, values, takes = run.base, run.config.options, run.base.model.get_config()
    changes = {n: values[n] for n in _SHARED_ARGUMENTS if n in takes and values[n] is not None}
    try:
        return copy_of(base.model, **changes)
    except ValueError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        raise InputError(
            f"The model of {base.folder} cannot be copied with {given}. A model that learns its "
            f"positions keeps its max_length. ({' '.join(str(error).split())[:200]})"
        ) from error
