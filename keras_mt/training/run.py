"""Training a run: a corpus and a preset in, a trained translator out, resumable at any time."""

import contextlib
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_mt.data.augmentation import augmentations
from keras_mt.errors import InputError
from keras_mt.extras import require_backend
from keras_mt.options import TrainingOptions
from keras_mt.options.fields import documented, from_keywords, signature
from keras_mt.plots import plot_run
from keras_mt.run_folder import RunFolder
from keras_mt.training import corpora, distribution
from keras_mt.training.architecture import Run, check_architecture, model_builder
from keras_mt.training.callbacks import (
    KeepBest,
    PairLosses,
    RunLog,
    TranslationScores,
    bleu_tokenizer,
)
from keras_mt.training.checkpoints import Checkpoints, averaged
from keras_mt.training.compiling import compile_for_translation
from keras_mt.training.configuration import run_config, with_fingerprints
from keras_mt.training.guidance import check_guidance, choose_head, guide, set_up_model
from keras_mt.training.lora import Adapters
from keras_mt.training.plan import TIMED_STEPS, Plan, Stopwatch
from keras_mt.training.recommend import completed, recommended_options
from keras_mt.translation import Translator


def train(
    data: str | Path | Sequence[str | Path] | None = None,
    source: str | None = None,
    target: str | None = None,
    output: str | Path | None = None,
    *,
    pairs: Mapping[str, str | Path] | None = None,
    report: Callable[[str], Any] = print,
    **options: Any,
) -> Path:
    """Trains a translator with `model.fit` and writes a run folder.

    Without a preset, `init` or another architecture, what is not given is fitted to the corpus, as
    `recommend` says; with `minutes` and a preset, all but the model's shape is. The learning rate
    of such a run, and of one with `minutes`, falls to 0 at its last step, where it ends for good.

    The folder holds `model.keras`, `tokenizer.model`, `config.json`, `log.csv`, `training.png` and
    `checkpoints/`. Called again on the same folder with the same arguments, it resumes from the
    last checkpoint; options that do not define the run, such as `epochs` or `steps`, may then
    differ. The corpus must hold the same pairs, but may be elsewhere.

    With `init` the model and the tokenizer are that run's, and so are, unless given here, its
    languages, dropout, label smoothing, R-Drop, the schedule (`warmup_steps`, `learning_rate`,
    `clip_norm`), the size of an update (`batch_tokens`, `gradient_accumulation_steps`) and
    `max_length`. How the data are read, the seed, the dtype and which weights `model.keras` takes
    are not handed on. An imported model keeps its dropout and its `max_length`, and is trained
    without label smoothing at a rate that rises to 5e-5 in 100 updates (5e-4 with adapters). With
    `lora_rank` that run must not change for as long as this one is to be resumed.

    With `pairs` in place of `data`, `source` and `target` the model translates between several
    languages, as `keras_mt.Tokenizer` says, from any that is a source to any that is a target. Its
    vocabulary is trained on about as many characters of each language. Each pair whose corpus has a
    validation split is validated by itself.

    Args:
        data: A corpus, as `keras_mt.data.load_corpus` takes it, or a list of corpora, of which the
            first is used for validation too.
        source: Language code of the source.
        target: Language code of the target.
        output: The run folder; it must be given.
        pairs: The corpora by the languages of their pairs, as `{"en-de": DATA, "de-en": DATA}`.
        report: Function that is called with each line of progress.
        {options}

    Returns:
        The run folder's path.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If an argument or the corpus is not usable, the folder holds another run or a
            model that would be overwritten, another process trains into it, the corpus has changed
            since the run began, or the first of several workers has failed.
        FloatingPointError: If the loss or a weight is not finite.
        OSError: If a file is missing or cannot be written.

    Example:

    >>> train("phrasebook", "pt", "en", "runs/pt_en", epochs=10)  # doctest: +SKIP
    >>> pairs = {"en-de": "to_german", "de-en": "to_german", "en-fr": "to_french"}
    >>> train(pairs=pairs, output="runs/several")  # doctest: +SKIP
    """
    require_backend("keras_mt.training")
    started = time.monotonic()
    options = from_keywords(TrainingOptions, "train()", options)
    given = corpora.run_corpora(data, source, target, pairs)
    if pairs is not None:
        for name in ("source_language", "target_language"):
            if getattr(options, name) is not None:
                raise InputError(f"{name} does not go with pairs, which name both: leave it out.")
    if output is None:
        raise InputError("output must be given: the run folder.")
    folder = RunFolder(output)
    if folder.path.is_file():
        raise InputError(f"{folder} is a file: give a folder for the run.")
    if options.corpus_weights and len(options.corpus_weights) != len(given["corpora"]):
        raise InputError(
            "corpus_weights must have one for each corpus. Received: "
            f"{list(options.corpus_weights)} for {', '.join(given['corpora'])}"
        )
    if options.augment is not None:
        augmentations(options.augment)  # Refuses an unknown one before anything is read.
    check_architecture(options)
    # Before the workers meet, so that what one of them finds later is of this start.
    distribution.chief_file(folder).unlink(missing_ok=True)
    strategy = distribution.choose_strategy(options.devices)
    # The others of a cluster wait for the chief, which alone writes.
    run = Run(folder, options, strategy, report=report, **given)
    check_guidance(run)
    told = distribution.failure_told(folder, run.chief and run.in_cluster)
    locked = folder.locked() if run.chief else contextlib.nullcontext()
    with told, locked, distribution.draws_apart(strategy), distribution.leaving_together(strategy):
        _train(run, started)
    return folder.path


documented(train, TrainingOptions)
train.__signature__ = signature(train, TrainingOptions)


def _train(run, started):
    folder, strategy = run.folder, run.strategy
    run.report(f"training on {distribution.device_names(strategy)}")
    build, tokenizer, batches, validation = _prepared(run)
    plan = Plan(run, batches.counts.batches, started)
    run.keep(total_steps=plan.total_steps)  # Not before the run is known to be possible.
    run.keep_tokenizer(tokenizer)
    options = run.options
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = build(tokenizer)
        set_up_model(run, model)
        adapters = None if options.lora_rank is None else Adapters(model, options.lora_rank)
        _compile(model, run.config.options, plan)
    del run.base  # The model is a copy.
    if run.config.model is None:
        run.keep(model=_model_config(model))
    checkpoints = Checkpoints(run, model, plan.checkpoint_steps, adapters)
    start = checkpoints.restore()
    _report_start(run, model, adapters, tokenizer, batches, plan)
    if start:
        run.report(f"resumed at step {start} from {folder.checkpoints}")
    log = RunLog(run, checkpoints, validation)
    fit = functools.partial(_fit, run, model, batches)
    if plan.last_step is None:
        watch = Stopwatch(run)
        fit(None, 0, max(batches.counts.batches, TIMED_STEPS), [checkpoints, log, watch])
        start = watch.count
        plan.fix(watch, sum(validation.steps.values()))
        checkpoints.every = plan.checkpoint_steps
        run.keep(total_steps=plan.total_steps)
        run.report(f"{plan.last_step:,} steps fit into {options.minutes:g} minutes")
    best = KeepBest(run, plan.monitor, log.rows)
    end_epoch = keras.callbacks.LambdaCallback(on_epoch_end=checkpoints.end_epoch)
    callbacks = [checkpoints, best, log, end_epoch]
    if options.bleu_freq:
        translator = Translator(model, tokenizer, **corpora.run_languages(run.config))
        measured = validation.pairs, options.bleu_freq, bleu_tokenizer(t for *_, t in run.measured)
        callbacks.insert(0, TranslationScores(translator, *measured))
    if run.pairs is not None:
        callbacks.insert(0, PairLosses(validation.steps))
    if not best.stopped:
        fit(validation, start, plan.last_step, callbacks)
    checkpoints.save()
    if run.chief:
        _finish(run, model, checkpoints, adapters, batches, validation)


def _prepared(run):
    """Prepares all that a run begins with, and refuses what is impossible.

    But for a cluster, nothing is written before.
    """
    pairs = [corpora.training_pairs(run, *direction) for direction in run.directions]
    if not run.chief:
        distribution.wait_for_chief(run.folder)
    run.folder.check_usable()
    run.recommended = recommended_options(run, pairs)
    run.options = completed(run)
    run.config = run_config(run)
    build = model_builder(run)
    tokenizer = corpora.run_tokenizer(run, pairs)
    if run.chief and run.in_cluster:  # The others need not wait until all is encoded.
        if run.begun is None:
            run.keep()
        run.keep_tokenizer(tokenizer)
        distribution.tell_others(run.folder)
    batches = corpora.training_batches(run, pairs, tokenizer)
    guide(run, batches, tokenizer)
    validation = corpora.validation_batches(run, tokenizer)
    run.config = with_fingerprints(run, batches, validation)
    return build, tokenizer, batches, validation


def _compile(model, config, plan):
    compile_for_translation(
        model,
        config["label_smoothing"],
        config["warmup_steps"],
        plan.learning_rate(getattr(model, "d_model", 512)),
        clip_norm=config["clip_norm"],
        gradient_accumulation_steps=config["gradient_accumulation_steps"],
        rdrop_weight=config["rdrop_weight"],
    )
    model.optimizer.build(model.trainable_variables)


def _model_config(model):
    try:
        return json.loads(json.dumps(model.get_config()))
    except TypeError as error:
        raise InputError(
            f"{type(model).__name__}.get_config() must hold only what JSON can: {error}"
        ) from None


def _report_start(run, model, adapters, tokenizer, batches, plan):
    options, values = run.options, run.config.options
    name = f"that of {options.init}" if options.init else values["preset"] or values["architecture"]
    parameters = f"{model.count_params():,} parameters"
    if adapters is not None:
        parameters += f", {sum(math.prod(w.shape) for w in adapters.weights):,} of them trained"
    steps = "" if plan.last_step is None else f"{plan.last_step:,} steps, "
    run.report(
        f"model: {name}, {parameters}, vocabulary "
        f"{tokenizer.vocab_size:,}; {steps}{batches.counts.batches:,} steps an epoch"
    )
    updates = (plan.last_step or math.inf) // values["gradient_accumulation_steps"]
    if plan.total_steps is None and values["warmup_steps"] >= updates:
        run.report(
            f"the learning rate rises until the end: the run has {updates:,} updates, and "
            f"warmup_steps={values['warmup_steps']}. A tenth of the updates is a good start."
        )


def _fit(run, model, batches, validation, start, last_step, callbacks):
    validated = sum(validation.steps.values()) if validation else 0
    distributed = functools.partial(distribution.distributed, run.strategy)
    for first, epoch, last_epoch, steps in _parts(start, last_step, batches.counts.batches):
        model.fit(
            distributed(functools.partial(batches.stream, first)),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=steps,
            validation_data=distributed(validation.epoch) if validated else None,
            validation_steps=validated or None,
            callbacks=callbacks,
            shuffle=False,  # The batches are shuffled already; else Keras warns.
            verbose=(1 if sys.stdout.isatty() else 2) if run.chief else 0,
        )
        if model.stop_training:
            break


def _parts(start, last_step, epoch_steps):
    """The calls of `fit` between two steps: first step, epoch, last epoch, steps an epoch.

    Keras counts whole epochs, so a partial first one and a partial last one get a call each.
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


def _finish(run, model, checkpoints, adapters, batches, validation):
    folder, options = run.folder, run.options
    best = folder.best_weights
    if options.weights == "best" and best.exists():
        model.load_weights(best)
        weights = model.get_weights() if adapters is None else adapters.merged()
    else:
        if options.weights == "best":
            run.report(f"{best} is not there: model.keras takes the last weights, not the best")
        count = checkpoints.count if options.weights == "average" else 1
        weights = averaged(model, folder.checkpoints, count, adapters)
    if head := choose_head(run, model, weights, batches, validation):
        model.alignment_head = head
        run.keep(model={**run.config.model, "alignment_head": list(head)})
    folder.save_model(model, weights)
    if any(row["loss"] or row["val_loss"] for row in folder.read_log()):
        plot_run(folder.log_file, folder.picture)
    run.report(f"finished at step {checkpoints.step}: {folder}")
