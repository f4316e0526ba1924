"""From what was asked for to the configuration of a run, in which all options are filled in."""

import dataclasses

from keras_mt.errors import InputError
from keras_mt.models import Transformer, architecture_name, find_architecture
from keras_mt.options import TrainingOptions
from keras_mt.options.training import INHERITED
from keras_mt.run_folder import RunConfig
from keras_mt.training.architecture import Base, preset_of
from keras_mt.training.corpora import Corpora
from keras_mt.training.distribution import Worker
from keras_mt.training.recipe import fitted_options

# What neither the user nor the recipe, the preset or the run to begin from says.
DEFAULTS = {
    "architecture": "transformer",
    "vocab_size": 8000,
    "max_length": 256,
    "epochs": 20,
    "batch_tokens": 4096,
    "gradient_accumulation_steps": 1,
    "label_smoothing": 0.1,
    "rdrop_weight": 0.0,
    "warmup_steps": 4000,
    "bleu_freq": 0,
    "dtype": "float32",
    "weights": "last",
}
# For an imported model, which has learned already: smoother labels would unlearn its confidence.
_FINE_TUNING = {"label_smoothing": 0.0, "warmup_steps": 100, "learning_rate": 5e-5}
_FINE_TUNING_ADAPTERS = {**_FINE_TUNING, "learning_rate": 5e-4}


def resolve(
    request: RunConfig, corpora: Corpora, begun: RunConfig | None, base: Base | None, worker: Worker
) -> RunConfig:
    """The configuration of a run.

    What the user gave comes first. The rest is that of the run that the folder holds (`begun`), or
    else that of the run to begin from (`base`), fitted to the corpora, or the preset's. Options
    that contradict each other or the folder's run are refused.
    """
    given, fitted, known = request.options, False, {}
    given = dataclasses.replace(given, architecture=architecture_name(given.architecture))
    if begun is not None:
        defaults = vars(begun.options)
    elif base is not None:
        defaults = _options_of(base, given)
        if base.config is not None:
            known = {n: getattr(base.config, n) for n in ("generation", "license", "trimmed")}
    else:
        architecture = find_architecture(request.options.architecture or "transformer")
        preset, values = preset_of(architecture, given.preset)
        dropout = values["model"].get("dropout")
        defaults = {"preset": preset, "dropout": dropout, **values["training"]}
        # Neither a preset alone says how to train, nor an architecture of another kind.
        fitted = architecture is Transformer and not (given.preset and given.minutes is None)
        if fitted:
            defaults = fitted_options(given, corpora.statistics, bool(corpora.validation), worker)
    averaged = {} if given.minutes is None else {"weights": "average"}
    options = given.completed(defaults, averaged, DEFAULTS)
    config = dataclasses.replace(request, options=options, fitted=fitted, **known)
    config = RunConfig.from_json(config.to_json())  # As it is read again: tuples are lists there.
    if begun is None:
        return config
    if changes := begun.changes(config):
        raise InputError(
            f"{worker.folder} holds a run with other arguments: {', '.join(changes)}. Give it "
            "the same ones to go on with it, or another output folder."
        )
    return dataclasses.replace(begun, options=config.options, data=config.data, pairs=config.pairs)


def _options_of(base, given):
    """The options that a run takes over from another one, gentle ones if that was imported."""
    before = TrainingOptions() if base.config is None else base.config.options
    names = ["preset", *INHERITED]
    values = {n: getattr(before, n) for n in names if getattr(before, n) is not None}
    values["architecture"] = architecture_name(type(base.model))
    if before.batch_tokens is None:  # Nobody trained it here.
        gentle = _FINE_TUNING if given.lora_rank is None else _FINE_TUNING_ADAPTERS
        values = {**gentle, "max_length": getattr(base.model, "max_length", None), **values}
    for name in ("architecture", "preset"):
        value = getattr(given, name)
        if value is not None and value != values.get(name, value):
            raise InputError(
                f"{name} is that of init, {values[name]!r}, not {value!r}: leave it out."
            )
    return values


def with_fingerprints(
    config: RunConfig, corpora: Corpora, base: Base | None, prints: list[dict]
) -> RunConfig:
    """The configuration with hashes of what the run reads; what has changed is refused.

    `prints` are the fingerprints of the training splits, and then of the validation splits.
    """
    digest = None if base is None else base.digest
    if config.fingerprints is None:  # Of a run that begins, or was stopped before it had any.
        found = {"corpora": prints} | ({"init": digest} if digest else {})
        return dataclasses.replace(config, fingerprints=found)
    if digest:
        base.check_unchanged(config)
    before = config.fingerprints["corpora"]
    if len(before) != len(prints):
        raise InputError(
            f"The run began with {len(before)} corpora, counting validation, and now there are "
            f"{len(prints)}: give it the same data, or another output folder."
        )
    validated = (f"the validation split of {pair or config.data[0]}" for pair in corpora.validation)
    names = [*config.data, *validated]
    for name, old, new in zip(names, before, prints, strict=True):
        if old != new:
            raise InputError(
                f"{name} has changed since the run began: {old['pairs']:,} pairs before, "
                f"{new['pairs']:,} now. Give it the same pairs in the same order, or another "
                "output folder."
            )
    return config
