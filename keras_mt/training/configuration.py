"""What defines a run, all filled in, and whether a folder's run is the same."""

import dataclasses
import hashlib
import json
from pathlib import Path

from keras_mt.data import Batches
from keras_mt.errors import InputError
from keras_mt.models import architecture_name, find_architecture
from keras_mt.run_folder import CONFIG_FIELDS, RunConfig, all_fingerprints
from keras_mt.training.architecture import Run, preset_of
from keras_mt.training.corpora import Validation
from keras_mt.training.guidance import LEARNED
from keras_mt.training.lora import digest

# What neither the user nor the preset nor the run to begin from says.
_DEFAULTS = {
    "max_length": 256,
    "batch_tokens": 4096,
    "gradient_accumulation_steps": 1,
    "label_smoothing": 0.1,
    "rdrop_weight": 0.0,
    "warmup_steps": 4000,
}
# For an imported model, which has learned already: smoother labels would unlearn its confidence.
_FINE_TUNING = {"label_smoothing": 0.0, "warmup_steps": 100, "learning_rate": 5e-5}
_FINE_TUNING_ADAPTERS = {**_FINE_TUNING, "learning_rate": 5e-4}


def run_config(run: Run) -> RunConfig:
    """The configuration of a run, all filled in.

    Refuses options that contradict each other, the folder's run, or the one to begin from.
    """
    begun, base = run.begun, run.base
    options = _filled_in(run.options, begun, base)
    if run.recommended is not None:
        options["preset"] = run.options.preset  # None, or it was given to resume a run without.
    config = RunConfig(
        run.corpora, run.source, run.target, options, recommended=run.recommended, pairs=run.pairs
    )
    if base is not None and base.folder.config is not None:
        before = base.folder.config
        config = dataclasses.replace(config, generation=before.generation, license=before.license)
    if begun is not None and (changes := begun.changes(config)):
        raise InputError(
            f"{run.folder} holds a run with other arguments: {', '.join(changes)}. Give it the "
            "same ones to go on with it, or another output folder."
        )
    return config


def _filled_in(options, begun, base):
    """The options that define the run, by their names in its configuration."""
    given = {name: getattr(options, field.name) for name, field in CONFIG_FIELDS.items()}
    if given["architecture"] is not None:
        given["architecture"] = architecture_name(given["architecture"])
    given["init"] = None if options.init is None else str(Path(options.init))
    if options.init is None:
        architecture = find_architecture(options.architecture or "transformer")
        name, preset = preset_of(architecture, options.preset)
        others = {"dropout": preset["model"].get("dropout"), **preset["training"]}
        others |= {"architecture": architecture_name(architecture), "preset": name}
    elif begun is not None:
        others = begun.options
    else:
        others = _options_of(base, options)
        for name in ("architecture", "preset"):
            if None not in (given[name], others.get(name)) and given[name] != others[name]:
                raise InputError(
                    f"{name} is that of init, {others[name]!r}: leave it out. "
                    f"Received: {name}={given[name]!r}"
                )
    for name, field in CONFIG_FIELDS.items():
        inherited = field.metadata["inherited"] or name in ("architecture", "preset")
        if given[name] is None and inherited:
            value = others.get(name)
            given[name] = _DEFAULTS.get(name) if value is None else value
    if given["batch_tokens"] < given["max_length"]:
        raise InputError(
            "batch_tokens must be at least max_length, since a batch holds at least one pair. "
            f"Received: batch_tokens={given['batch_tokens']}, max_length={given['max_length']}"
        )
    if given["rdrop_weight"] and given["dropout"] == 0:
        raise InputError(
            "rdrop_weight needs `dropout`. "
            f"Received: rdrop_weight={given['rdrop_weight']}, dropout=0"
        )
    return json.loads(json.dumps(given))  # As the file gives it back.


def _options_of(base, options):
    """The options of the run to begin from; those of fine-tuning, if it was imported."""
    config = base.folder.config
    others = {} if config is None else config.options
    if others.get("batch_tokens") is None:  # Nobody trained it here.
        gentle = _FINE_TUNING if options.lora_rank is None else _FINE_TUNING_ADAPTERS
        limit = {"max_length": getattr(base.model, "max_length", None)}
        others = {**gentle, **limit, **{n: v for n, v in others.items() if v is not None}}
    return {**others, "architecture": architecture_name(type(base.model))}


def with_fingerprints(run: Run, batches: Batches, validation: Validation) -> RunConfig:
    """A run's configuration with the corpora's fingerprints; refuses a corpus that has changed."""
    config, begun, base = run.config, run.begun, run.base
    if begun is not None and begun.fingerprints is None:  # It was stopped before it had any.
        begun = None
    prints = [part.fingerprints[0] for part in validation.values()]
    validated = prints if run.pairs is not None else next(iter(prints), None)
    fingerprints = {"train": batches.fingerprints, "validation": validated}
    if (alignments := config.options["guided_alignment"]) not in (None, LEARNED):
        with open(alignments, "rb") as file:
            fingerprints["alignments"] = hashlib.file_digest(file, "sha256").hexdigest()
    if config.options["lora_rank"] is not None:
        fingerprints["init"] = digest(base.model)
        if begun is not None:
            base.check_unchanged(begun)
    config = dataclasses.replace(config, fingerprints=fingerprints)
    if begun is None:
        return config
    unchanged = ("data", "model", "generation", "license", "total_steps", "versions")
    config = dataclasses.replace(config, **{name: getattr(begun, name) for name in unchanged})
    before, now = map(all_fingerprints, (begun.fingerprints, fingerprints))
    if len(before) != len(now):
        raise InputError(
            f"The run began with {len(before)} corpora, counting validation, and now there are "
            f"{len(now)}: give it the same data, or another output folder."
        )
    validated = (pair or run.corpora[0] for pair in validation)
    names = [*run.corpora, *(f"the validation split of {name}" for name in validated)]
    for name, old, new in zip(names, before, now, strict=False):
        if old != new:
            what = f"{old['pairs']:,} pairs before, {new['pairs']:,} now"
            if old["pairs"] == new["pairs"]:
                what = f"{new['pairs']:,} pairs as before, but others, or in another order"
            raise InputError(
                f"{name} has changed since the run began: {what}. Give it the same data, or "
                "another output folder."
            )
    if begun.fingerprints.get("alignments") != fingerprints.get("alignments"):
        raise InputError(
            f"{alignments} has changed since the run began: put it back, or give another output "
            "folder."
        )
    return config
