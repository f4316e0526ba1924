"""From what was asked for to the configuration of a run, in which all options are filled in."""

import dataclasses
from collections.abc import Mapping, Sequence

from keras_mt.data import Batches
from keras_mt.errors import InputError
from keras_mt.models import Transformer, architecture_name, find_architecture
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig
from keras_mt.training.architecture import Base, preset_of
from keras_mt.training.corpora import Corpora
from keras_mt.training.distribution import Worker
from keras_mt.training.recipe import AVERAGED, fitted_options

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
    request: RunConfig,
    corpora: Corpora,
    begun: RunConfig | None,
    base: Base | None,
    worker: Worker,
) -> RunConfig:
    """The configuration of a run.

    What the user gave comes first. The rest is that of the run that the folder holds (`begun`), or
    else that of the run to begin from (`base`), fitted to the corpora, or the preset's. Options
    that contradict each other or the folder's run are refused.
    """
    given = request.options
    architecture = given.architecture and architecture_name(given.architecture)
    named = dataclasses.replace(given, architecture=architecture)
    if begun is not None:
        options = named.completed(vars(begun.options), DEFAULTS)
        now = _as_read_again(dataclasses.replace(request, options=options))
        if changes := begun.changes(now):
            raise InputError(
                f"{worker.folder} holds a run with other arguments: {', '.join(changes)}. Give it "
                "the same ones to go on with it, or another output folder."
            )
        config = dataclasses.replace(begun, options=options)
        if begun.fingerprints is None:  # It was stopped before its corpora were encoded.
            config = dataclasses.replace(config, data=request.data, pairs=request.pairs)
    else:
        fitted = _is_fitted(given)
        if base is not None:
            defaults = _options_of(base, named)
        elif fitted:
            validated = bool(corpora.validation)
            defaults = fitted_options(given, corpora.statistics, validated, worker)
        else:
            defaults = _options_of_preset(given)
        averaged = AVERAGED if given.minutes is not None else {}
        options = named.completed(defaults, averaged, DEFAULTS)
        config = dataclasses.replace(request, options=options, fitted=fitted)
        if base is not None and base.config is not None:
            known = {n: getattr(base.config, n) for n in ("generation", "license")}
            config = dataclasses.replace(config, **known)
    _check(config.options)
    return _as_read_again(config)


def _as_read_again(config):
    """The configuration as config.json gives it back: tuples are lists there."""
    return RunConfig.from_json(config.to_json())


def _is_fitted(given):
    """True for a Transformer that neither a preset alone nor another run says how to train."""
    if given.init is not None or (given.preset is not None and given.minutes is None):
        return False
    return find_architecture(given.architecture or "transformer") is Transformer


def _options_of_preset(given):
    architecture = find_architecture(given.architecture or "transformer")
    preset, values = preset_of(architecture, given.preset)
    return {"preset": preset, "dropout": values["model"].get("dropout"), **values["training"]}


def _options_of(base, given):
    """The options that a run takes over from another one, gentle ones if that was imported."""
    before = TrainingOptions() if base.config is None else base.config.options
    fields = dataclasses.fields(TrainingOptions)
    names = ["preset", *(field.name for field in fields if field.metadata["inherited"])]
    values = {n: getattr(before, n) for n in names if getattr(before, n) is not None}
    values["architecture"] = architecture_name(type(base.model))
    if before.batch_tokens is None:  # Nobody trained it here.
        gentle = _FINE_TUNING if given.lora_rank is None else _FINE_TUNING_ADAPTERS
        values = {**gentle, "max_length": getattr(base.model, "max_length", None), **values}
    for name in ("architecture", "preset"):
        value = getattr(given, name)
        if value is not None and value != values.get(name, value):
            raise InputError(
                f"{name} is that of init, {values[name]!r}: leave it out. "
                f"Received: {name}={value!r}"
            )
    return values


def _check(options):
    if options.batch_tokens < options.max_length:
        raise InputError(
            "batch_tokens must be at least max_length, since a batch holds at least one pair. "
            f"Received: batch_tokens={options.batch_tokens}, max_length={options.max_length}"
        )
    if options.rdrop_weight and options.dropout == 0:
        raise InputError(
            "rdrop_weight needs `dropout`. "
            f"Received: rdrop_weight={options.rdrop_weight}, dropout=0"
        )


def with_fingerprints(
    config: RunConfig,
    data: Sequence[str],
    base: Base | None,
    batches: Batches,
    validation: Mapping[str, Batches],
) -> RunConfig:
    """The configuration with hashes of what the run reads, which `data` names.

    What has changed since the run began is refused.
    """
    found = {"corpora": [*batches.encoded.fingerprints]}
    found["corpora"] += [part.encoded.fingerprints[0] for part in validation.values()]
    if base is not None and base.digest is not None:
        found["init"] = base.digest
    before = config.fingerprints
    if before is None:  # Of a run that begins, or was stopped before it had any.
        return dataclasses.replace(config, fingerprints=found)
    if "init" in found:
        base.check_unchanged(config)
    if len(before["corpora"]) != len(found["corpora"]):
        raise InputError(
            f"The run began with {len(before['corpora'])} corpora, counting validation, and now "
            f"there are {len(found['corpora'])}: give it the same data, or another output folder."
        )
    validated = (f"the validation split of {pair or data[0]}" for pair in validation)
    pairs = zip(before["corpora"], found["corpora"], strict=True)
    for name, (old, new) in zip([*data, *validated], pairs, strict=False):
        if old != new:
            change = f"{old['pairs']:,} pairs before, {new['pairs']:,} now"
            if old["pairs"] == new["pairs"]:
                change = f"{new['pairs']:,} pairs as before, but others, or in another order"
            raise InputError(
                f"{name} has changed since the run began: {change}. Give it the same data, or "
                "another output folder."
            )
    return config
