"""Training a run: a corpus and a preset in, a trained translator out, resumable at any time."""

import contextlib
import dataclasses
import functools
import inspect
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_mt.augmentation import augmentations
from keras_mt.data import Batches, Tokenizer, has_split, load_corpus
from keras_mt.errors import InputError
from keras_mt.extras import require_backend
from keras_mt.files import atomic_write, check_new, new_folder
from keras_mt.models import architecture_name, built, copy_of, find_architecture
from keras_mt.options import TrainingOptions, check_bleu_tokenizer, documented, signature
from keras_mt.plots import plot_run
from keras_mt.run_folder import KEPT, RunConfig, RunFolder
from keras_mt.training.callbacks import (
    Checkpoints,
    KeepBest,
    RunLog,
    TranslationScores,
    averaged,
)
from keras_mt.training.compiling import compile_for_translation
from keras_mt.training.distribution import (
    bridged,
    choose_strategy,
    distributed,
    is_chief,
    leaving_together,
)
from keras_mt.training.lora import Adapters, digest
from keras_mt.translation import Translator

_DEFAULT_EPOCHS = 20
# What neither the preset nor the run to begin from says.
_RECIPE = {
    "max_length": 256,
    "batch_tokens": 4096,
    "accumulate": 1,
    "label_smoothing": 0.1,
    "rdrop": 0.0,
    "warmup_steps": 4000,
}


def train(
    data: str | Path | Sequence[str | Path],
    source: str,
    target: str,
    output: str | Path,
    *,
    report: Callable[[str], Any] = print,
    **options: Any,
) -> Path:
    """Trains a translator with `model.fit` and writes a run folder.

    The folder holds `model.keras`, `tokenizer.model`, `config.json`, `log.csv`, `training.png` and
    `checkpoints/`. Called again on the same folder with the same arguments, it resumes from the
    last checkpoint; options that do not define the run, such as `epochs` or `steps`, may then
    differ. The corpus must hold the same pairs, but may be elsewhere.

    With `init` the model and the tokenizer are that run's, and so is its recipe, unless given here:
    its languages, dropout, label smoothing, R-Drop, the schedule (`warmup_steps`, `learning_rate`,
    `clip_norm`), the size of an update (`batch_tokens`, `accumulate`) and `max_length`. How the
    data are read, the seed, the dtype and which weights `model.keras` takes are not handed on. With
    `lora` that run must not change for as long as this one is to be resumed.

    Args:
        data: `tfds:NAME`, a folder of `LANG.SPLIT.txt` or `SPLIT.LANG` files, a `.tsv` file, or
            `phrasebook`; or a list of these, of which the first is used for validation too.
        source: Language code of the source.
        target: Language code of the target.
        output: The run folder.
        report: Function that is called with each line of progress.
        {options}

    Returns:
        The run folder's path.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If an argument or the corpus is not usable, the folder holds another run or a
            model that would be overwritten, another process trains into it, the corpus has changed
            since the run began, this version of Keras does not work on several replicas, or the
            first of several workers has failed.
        FloatingPointError: If the loss or a weight is not finite.
        OSError: If a file is missing or cannot be written.

    Example:

    >>> train("phrasebook", "pt", "en", "runs/pt_en", epochs=10)  # doctest: +SKIP
    """
    require_backend("keras_mt.training")
    options = TrainingOptions.of("train", options)
    corpora = [str(name) for name in (data if isinstance(data, (list, tuple)) else [data])]
    folder = RunFolder(output)
    if folder.path.is_file():
        raise InputError(f"{folder} is a file: give a folder for the run.")
    if options.bleu_epochs:
        check_bleu_tokenizer(options.bleu_tokenize)
    if options.augment is not None:
        augmentations(options.augment)  # Refuses an unknown one before anything is read.
    _check_architecture(options)
    # Before the workers meet, so that a mark that one of them finds later is from this start.
    folder.failure_file.unlink(missing_ok=True)
    strategy = choose_strategy(options.devices)
    # The others of a cluster wait for the chief, which alone writes.
    locked = folder.locked() if is_chief(strategy) else contextlib.nullcontext()
    with locked, bridged(strategy), leaving_together(strategy):
        _train(strategy, folder, corpora, source, target, options, report)
    return folder.path


documented(train, TrainingOptions)
train.__signature__ = signature(train, TrainingOptions)


def _train(strategy, folder, corpora, source, target, options, report):
    chief = is_chief(strategy)
    report = report if chief else lambda message: None
    with _failure_marked(folder, chief and strategy.cluster_resolver is not None):
        pairs = [load_corpus(name, source, target, "train") for name in corpora]
        if not chief:
            _wait_for_chief(folder)
        folder.check_usable()
        begun = folder.config
        resumed = None if folder.last_checkpoint is None else begun
        base = _base(options, resumed)
        config = RunConfig(corpora, source, target, _kept_options(options, begun, base))
        if base is not None and base[0].config is not None:
            before = base[0].config
            config = dataclasses.replace(
                config, generation=before.generation, license=before.license
            )
        _check_same(folder, begun, config)
        build = _builder(options, resumed, config, base)
        tokenizer = _tokenizer(folder, options, base, pairs, report)
        batches = _batches(folder, pairs, tokenizer, options, config, report)
        last_step = _last_step(options, batches.counts.batches)
        validation_pairs, validation = _validation(options, config, tokenizer, report)
        config = _fingerprinted(config, begun, base, batches, validation, report)
        if chief:  # Not before the run is known to be possible.
            if config != begun:
                folder.write_config(config)
            if not folder.tokenizer_path.exists():
                folder.save_tokenizer(tokenizer)

    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = build(tokenizer)
        adapters = None if options.lora is None else Adapters(model, options.lora)
        _compile(model, config.options)
    del base, build  # The model is a copy.
    if chief and config.model is None:
        folder.write_config(dataclasses.replace(config, model=_model_config(model)))
    checkpoints = Checkpoints(
        model,
        folder.checkpoints,
        options.checkpoint_steps,
        keep=options.keep,
        report=report,
        write=chief,
        adapters=adapters,
    )
    start = checkpoints.restore()
    kept = config.options
    name = f"that of {options.init}" if options.init else kept["preset"] or kept["architecture"]
    parameters = f"{model.count_params():,} parameters"
    if adapters is not None:
        parameters += f", {sum(math.prod(w.shape) for w in adapters.weights):,} of them trained"
    report(
        f"model: {name}, {parameters}, vocabulary "
        f"{tokenizer.vocab_size:,}; {last_step:,} steps, {batches.counts.batches:,} an epoch"
    )
    updates = last_step // kept["accumulate"]
    if kept["warmup_steps"] >= updates:
        report(
            f"the learning rate rises until the end: the run has {updates:,} updates, and "
            f"warmup_steps={kept['warmup_steps']}. A tenth of the updates is a good start."
        )
    if start:
        report(f"resumed at step {start} from {folder.checkpoints}")
    log = RunLog(folder, checkpoints, write=chief, tensorboard=options.tensorboard)
    best_weights = folder.best_weights if options.keep_best and chief else None
    best = KeepBest(options.monitor, best_weights, options.early_stopping, log.rows, report)
    end_epoch = keras.callbacks.LambdaCallback(on_epoch_end=checkpoints.end_epoch)
    callbacks = [checkpoints, best, log, end_epoch]
    if options.bleu_epochs:
        translator = Translator(model, tokenizer, **_languages(config))
        measured = validation_pairs, options.bleu_epochs, options.bleu_tokenize
        callbacks.insert(0, TranslationScores(translator, *measured))
    _fit(model, strategy, batches, validation, start, last_step, callbacks, best, chief)
    checkpoints.save()
    if chief:
        _write_model(folder, model, checkpoints, adapters, options, report)
        if any(row["loss"] or row["val_loss"] for row in folder.read_log()):
            plot_run(folder.log_file, folder.picture)
        report(f"finished at step {checkpoints.step}: {folder}")


def _batches(folder, pairs, tokenizer, options, config, report):
    batches = Batches(
        pairs,
        tokenizer,
        tokens_per_batch=config.options["batch_tokens"],
        max_length=config.options["max_length"],
        seed=options.seed,
        subword_sampling=options.subword_sampling,
        augment=options.augment,
        weights=options.weights,
        max_ratio=options.max_ratio,
        deduplicate=options.deduplicate,
        directory=folder.path,
        **_languages(config),
    )
    report(f"train: {batches.counts}")
    if not batches.counts.batches:
        raise InputError(
            f"{', '.join(config.data)} has no pair of at most "
            f"max_length={config.options['max_length']} tokens: raise max_length, or give another "
            "corpus."
        )
    return batches


def _languages(config):
    return {name: config.options[name] for name in ("source_language", "target_language")}


def _compile(model, kept):
    compile_for_translation(
        model,
        kept["label_smoothing"],
        kept["warmup_steps"],
        kept["learning_rate"],
        clip_norm=kept["clip_norm"],
        accumulate=kept["accumulate"],
        rdrop=kept["rdrop"],
    )
    model.optimizer.build(model.trainable_variables)


def average_run(
    run_dir: str | Path,
    output: str | Path,
    last: int = 5,
    dtype: str = "float32",
    architecture: str | type | None = None,
) -> Path:
    """Makes a run folder whose model has the mean weights of another run's last checkpoints.

    Args:
        run_dir: The run folder; the run need not be at its end.
        output: The new folder. It has no checkpoints: training goes on from it only as `init` of
            another run.
        last: Number of checkpoints.
        dtype: Dtype of the weights that are written: "float32", or "bfloat16", half as large. What
            loads the folder computes in float32 with either.
        architecture: `MODULE:CLASS`, or the class, of a model that is none of keras_mt's own.

    Returns:
        The new folder's path.

    Raises:
        ValueError: If there are fewer checkpoints or one cannot be read, the model's class is not
            known, or the weights under LoRA's adapters have changed.
        FileNotFoundError: If `run_dir` is not a run folder with checkpoints.
        FileExistsError: If the new folder exists already.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 6.1, with 5 checkpoints.

    Example:

    >>> average_run("runs/en_de", "runs/en_de_averaged", last=10)  # doctest: +SKIP
    """
    folder, output = RunFolder(run_dir), Path(output)
    check_new(output)
    config = folder.config
    if config is None or not folder.tokenizer_path.exists() or not folder.checkpoints.exists():
        raise FileNotFoundError(
            f"{folder} is not a run folder to average: it must have config.json, a tokenizer and "
            f"{folder.checkpoints.name}/."
        )
    kept = {name: config.options[name] for name in ("init", "lora")}
    options = TrainingOptions(**kept, architecture=architecture)
    base = _base(options, config)
    model = _builder(options, config, config, base)(folder.load_tokenizer())
    adapters = None
    if options.lora is not None:
        _check_base(config, base)
        adapters = Adapters(model, options.lora)
    weights = averaged(model, folder.checkpoints, last, adapters)
    with new_folder(output) as temporary:
        folder.copy_to(RunFolder(temporary))
        RunFolder(temporary).save_model(model, weights, dtype)
    return output


def _check_architecture(options):
    """Refuses, before anything is read, a model that cannot be made."""
    if options.init is not None:
        return
    architecture = find_architecture(options.architecture or "transformer")
    _preset(architecture, options.preset)
    takes = _constructor_arguments(architecture)
    for name in ("dropout", "dtype"):
        given = getattr(options, name) != TrainingOptions.__dataclass_fields__[name].default
        if given and name not in takes:
            raise InputError(
                f"{architecture.__name__} has no argument {name!r}: it has {', '.join(takes)}."
            )
    for name in options.model or {}:
        if name in ("vocab_size", "padding_id"):
            raise InputError(f"{name} is the tokenizer's: give vocab_size, or another tokenizer.")
        if name not in takes:
            raise InputError(
                f"{architecture.__name__} has no argument {name!r}: it has {', '.join(takes)}."
            )


def _is_built_in(architecture):
    return ":" not in architecture


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


def _preset(architecture, name):
    """The name of a preset of an architecture, its first one for None, and what it holds."""
    presets = getattr(architecture, "presets", {})
    if name is None:
        name = next(iter(presets), None)
    elif name not in presets:
        raise InputError(f"Unknown preset {name!r}; there are {', '.join(presets) or 'none'}.")
    return name, presets.get(name, {"model": {}, "training": {}})


def _base(options, begun):
    """The model and the folder that a run begins from.

    None where the run has begun, and its config has the model and its checkpoints all weights.
    """
    knows = begun is not None and begun.model is not None and options.lora is None
    if options.init is None or knows:
        return None
    folder = RunFolder(options.init)
    model = folder.load_model(options.architecture)
    if options.architecture is not None:
        _check_that_of_init("architecture", options.architecture, architecture_name(type(model)))
    return folder, model


def _check_base(begun, base):
    """Refuses another model under the adapters than the one that they were trained on."""
    if begun.fingerprints["init"] != digest(base[1]):
        raise InputError(
            f"The weights of {base[0]} have changed since the run began, and the run's checkpoints "
            "hold only what is added to them: put them back, or give another output folder."
        )


def _check_that_of_init(name, given, of_init):
    given = architecture_name(given)
    if given != of_init:
        raise InputError(
            f"{name} is that of init, {of_init!r}: leave it out. Received: {name}={given!r}"
        )


def _kept_options(options, begun, base):
    """The options that define the run, by their names in its configuration, all filled in."""
    given = {name: getattr(options, field.name) for name, field in KEPT.items()}
    if given["architecture"] is not None:
        given["architecture"] = architecture_name(given["architecture"])
    given["init"] = None if options.init is None else str(Path(options.init))
    if options.init is None:
        architecture = find_architecture(options.architecture or "transformer")
        name, preset = _preset(architecture, options.preset)
        recipe = {"dropout": preset["model"].get("dropout"), **preset["training"]}
        others = {"architecture": architecture_name(architecture), "preset": name, **recipe}
    elif begun is not None:
        others = begun.options
    else:
        folder, model = base
        others = {"preset": None} if folder.config is None else folder.config.options
        others = {**others, "architecture": architecture_name(type(model))}
        for name in ("architecture", "preset"):
            if given[name] is not None and others[name] is not None:
                _check_that_of_init(name, given[name], others[name])
    for name, field in KEPT.items():
        handed_on = field.metadata["recipe"] or name in ("architecture", "preset")
        if given[name] is None and handed_on:
            of_init = others.get(name)  # An imported one has no recipe.
            given[name] = _RECIPE.get(name) if of_init is None else of_init
    if given["batch_tokens"] < given["max_length"]:
        raise InputError(
            "batch_tokens must be at least max_length, since a batch holds at least one pair. "
            f"Received: batch_tokens={given['batch_tokens']}, max_length={given['max_length']}"
        )
    if given["rdrop"] and given["dropout"] == 0:
        raise InputError(f"rdrop needs dropout. Received: rdrop={given['rdrop']}, dropout=0")
    return json.loads(json.dumps(given))  # As the file gives it back.


def _check_same(folder, begun, config):
    changes = [] if begun is None else begun.changes(config)
    if changes:
        raise InputError(
            f"{folder} holds a run with other arguments: {', '.join(changes)}. Give it the same "
            "ones to go on with it, or another output folder."
        )


def _fingerprinted(config, begun, base, batches, validation, report):
    """The configuration with the corpora's fingerprints and what the run had when it began.

    Refuses other pairs than those that the run began with.
    """
    fingerprints = {
        "train": batches.fingerprints,
        "validation": validation and validation.fingerprints[0],
    }
    if config.options["lora"] is not None:
        fingerprints["init"] = digest(base[1])
        if begun is not None:
            _check_base(begun, base)
    config, corpora = dataclasses.replace(config, fingerprints=fingerprints), config.data
    if begun is None:
        return config
    config = dataclasses.replace(
        config,
        data=begun.data,
        model=begun.model,
        generation=begun.generation,
        license=begun.license,
        versions=begun.versions,
    )
    if begun.fingerprints is None:
        report("the run is from before corpora had fingerprints: taken as the same data")
        return config
    before, now = (
        [*each["train"], *([each["validation"]] if each["validation"] else [])]
        for each in (begun.fingerprints, fingerprints)
    )
    names = [*corpora, f"the validation split of {corpora[0]}"]
    if len(before) != len(now):
        raise InputError(
            f"The run began with {len(before)} corpora, counting validation, and now there are "
            f"{len(now)}: give it the same data, or another output folder."
        )
    for name, old, new in zip(names, before, now, strict=False):
        if old == new:
            continue
        what = f"{old['pairs']:,} pairs before, {new['pairs']:,} now"
        if old["pairs"] == new["pairs"]:
            what = f"{new['pairs']:,} pairs as before, but others, or in another order"
        raise InputError(
            f"{name} has changed since the run began: {what}. Give it the same data, or another "
            "output folder."
        )
    return config


def _builder(options, begun, config, base):
    """A function from a tokenizer to the model that a run begins with, or is resumed with."""
    if base is not None:
        return lambda tokenizer: _tuned(base[1], config)
    if begun is not None and begun.model is not None:
        architecture = _given_architecture(options, begun)
        return lambda tokenizer: built(architecture.from_config(begun.model))
    architecture = find_architecture(options.architecture or "transformer")
    if options.model or not _is_built_in(config.options["architecture"]):
        _check_buildable(architecture, options.model, config)
    return lambda tokenizer: built(architecture(**_arguments(architecture, config, tokenizer)))


def _given_architecture(options, begun):
    """The class of a run's model; a run's files alone never cause an import."""
    name = begun.options["architecture"]
    if options.architecture is None and not _is_built_in(name):
        raise InputError(
            f"The run's model is a {name!r}, which is none of keras_mt's own: give this class as "
            "--architecture (`architecture=` in Python)."
        )
    return find_architecture(options.architecture or name)


def _arguments(architecture, config, tokenizer):
    """What the constructor of an architecture is given."""
    own = {name: config.options[name] for name in ("max_length", "dropout", "dtype")}
    own |= {"vocab_size": tokenizer.vocab_size, "padding_id": tokenizer.padding_id}
    takes = _constructor_arguments(architecture)
    own = {name: value for name, value in own.items() if name in takes and value is not None}
    _, preset = _preset(architecture, config.options["preset"])
    return {**preset["model"], **own, **(config.options["set"] or {})}


def _check_buildable(architecture, given, config):
    """Refuses arguments that a constructor does not take, in the words of its own error."""

    class Probe:
        vocab_size, padding_id = 300, 0

    try:
        architecture(**_arguments(architecture, config, Probe))
    except Exception as error:
        raise InputError(
            f"{architecture.__name__} cannot be made with {given or {}}: "
            f"{str(error).rstrip('.')}. "
            f"Its arguments are {', '.join(_constructor_arguments(architecture))}."
        ) from error


def _tuned(base, config):
    """A copy of the model that a run begins from, with its dropout, its limit and its dtype."""
    own = {name: config.options[name] for name in ("max_length", "dropout", "dtype")}
    model_config = base.get_config()
    own = {n: value for n, value in own.items() if n in model_config and value is not None}
    try:
        return copy_of(base, **own)
    except ValueError as error:  # A shorter table of positions, for one.
        raise InputError(f"The model of init cannot be trained further: {error}") from error


def _model_config(model):
    try:
        return json.loads(json.dumps(model.get_config()))
    except TypeError as error:
        raise InputError(
            f"{type(model).__name__}.get_config() must hold only what JSON can: {error}"
        ) from None


def _write_model(folder, model, checkpoints, adapters, options, report):
    best = folder.best_weights
    kept = options.keep_best and best.exists()
    if options.keep_best and not kept:
        report(f"{best} is not there: model.keras takes the last weights, not the best")
    if kept:
        model.load_weights(best)
        weights = model.get_weights() if adapters is None else adapters.merged()
    else:
        # A run that stopped early may have fewer.
        count = min(options.average, checkpoints.count)
        weights = averaged(model, checkpoints.directory, count, adapters)
    folder.save_model(model, weights)


@contextlib.contextmanager
def _failure_marked(folder, others_wait):
    """Writes down an exception within the block for `_wait_for_chief`, if other workers wait."""
    try:
        yield
    except BaseException as error:
        if others_wait:
            with contextlib.suppress(OSError):
                folder.path.mkdir(parents=True, exist_ok=True)
                with atomic_write(folder.failure_file) as temporary:
                    temporary.write_text(str(error) or type(error).__name__, encoding="utf-8")
        raise


def _wait_for_chief(folder):
    """Waits until the first worker has written the tokenizer, in a folder that all share."""
    for _ in range(2 * 3600):
        if folder.tokenizer_path.exists():
            return
        if folder.failure_file.exists():
            why = folder.failure_file.read_text(encoding="utf-8")
            raise InputError(f"The first worker has stopped: {why}")
        time.sleep(0.5)
    raise TimeoutError(
        f"The first worker has not written {folder.tokenizer_path} within an hour: see what it "
        "printed, and whether all workers share that folder."
    )


def _last_step(options, batches):
    """The last step of a run; refuses it if BLEU or checkpoints would be missing."""
    bleu_epochs, checkpoint_steps = options.bleu_epochs, options.checkpoint_steps
    last_step = options.steps or (options.epochs or _DEFAULT_EPOCHS) * batches
    run_epochs = math.ceil(last_step / batches)
    by_bleu = options.keep_best and options.monitor == "val_bleu"
    if by_bleu and bleu_epochs > run_epochs:
        raise InputError(
            f"keep_best has nothing to go by: with {bleu_epochs=} BLEU is never measured in "
            f"{run_epochs} epochs. Lower bleu_epochs or train for more epochs."
        )
    average, saved = options.average, math.ceil(last_step / checkpoint_steps)
    if average > saved:
        raise InputError(
            f"average={average} needs that many checkpoints, and with {checkpoint_steps=} a run "
            f"of {last_step} steps has {saved}: lower average or checkpoint_steps."
        )
    return last_step


def _validation(options, config, tokenizer, report):
    """The pairs of the first corpus's validation split and their batches; None without one."""
    corpus, max_length = config.data[0], config.options["max_length"]
    needed = options.keep_best or options.early_stopping
    if not has_split(corpus, config.source, config.target, "validation"):
        if needed or options.bleu_epochs:
            raise InputError(
                f"{corpus} has no validation split, which keep_best, early_stopping and "
                "bleu_epochs need."
            )
        return None, None
    pairs = load_corpus(corpus, config.source, config.target, "validation")
    batches = Batches(
        pairs,
        tokenizer,
        tokens_per_batch=config.options["batch_tokens"],
        max_length=max_length,
        **_languages(config),
    )
    report(f"validation: {batches.counts}")
    if needed and options.monitor == "val_loss" and not batches.counts.batches:
        raise InputError(
            f"{corpus} has no pair of at most max_length={max_length} tokens in its validation "
            "split, which keep_best and early_stopping need."
        )
    return pairs, batches


def _tokenizer(folder, options, base, pairs, report):
    given = options.tokenizer
    if isinstance(given, (str, os.PathLike)):
        of_run = Path(given).is_dir()
        path = RunFolder(given).tokenizer_path if of_run else Path(given)
        if not path.exists():
            raise FileNotFoundError(
                f"There is no tokenizer at {path}: give a tokenizer.model, or a run folder that "
                "has one."
            )
        given = RunFolder(given).load_tokenizer() if of_run else Tokenizer.load(path)
    if folder.tokenizer_path.exists():
        tokenizer = folder.load_tokenizer(None if given is None else type(given))
        if given is not None and given.fingerprint != tokenizer.fingerprint:
            raise InputError(
                f"{folder} holds a run with another tokenizer: give the same tokenizer, or none, "
                "to resume it, or another output folder."
            )
        return tokenizer
    if given is None and base is not None:
        given = base[0].load_tokenizer()
    if given is not None:
        if options.vocab_size not in (TrainingOptions.vocab_size, given.vocab_size):
            report(
                f"vocab_size={options.vocab_size} is ignored: the tokenizer brings its own, "
                f"{given.vocab_size:,}"
            )
        return given
    report(f"training the tokenizer, at most {options.vocab_size:,} pieces")
    texts = (t for corpus in pairs for pair in corpus.as_numpy_iterator() for t in pair)
    return Tokenizer.train(texts, options.vocab_size, seed=options.seed)


def _fit(model, strategy, batches, validation, start, last_step, callbacks, best, chief):
    if validation is not None and not validation.counts.batches:
        validation = None
    for first, epoch, last_epoch, steps in _parts(start, last_step, batches.counts.batches):
        if best.stopped:
            break
        model.fit(
            distributed(strategy, functools.partial(batches.stream, first)),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=steps,
            validation_data=validation
            and distributed(strategy, functools.partial(validation.epoch, 0)),
            validation_steps=validation and validation.counts.batches,
            callbacks=callbacks,
            shuffle=False,  # The batches are shuffled already; else Keras warns.
            verbose=(1 if sys.stdout.isatty() else 2) if chief else 0,
        )


def _parts(start, last_step, epoch_steps):
    """The calls of `fit` from one step to another: first step, epoch, last epoch, steps an epoch.

    Keras counts whole epochs, so the rest of a partial first one, and a partial last one, get a
    call each.
    """
    while start < last_step:
        epoch, offset = divmod(start, epoch_steps)
        epochs = (last_step - start) // epoch_steps
        if offset or not epochs:
            epochs, steps = 1, min(epoch_steps - offset, last_step - start)
        else:
            steps = epoch_steps
        yield start, epoch, epoch + epochs, steps
        start += epochs * steps
