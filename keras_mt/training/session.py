"""Training a run: a corpus in, a trained translator out, resumable at any time."""

import contextlib
import dataclasses
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_mt.data import Batches
from keras_mt.errors import InputError
from keras_mt.extras import require_backend
from keras_mt.options import TrainingOptions
from keras_mt.options.fields import documented, from_keywords, signature
from keras_mt.plots import plot_run
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import BaseTokenizer
from keras_mt.training import corpora, plan
from keras_mt.training.architecture import load_base, make_model
from keras_mt.training.callbacks import KeepBest, RunLog, TranslationScores, bleu_tokenizer
from keras_mt.training.checkpoints import Checkpoints, averaged
from keras_mt.training.compiling import compile_for_translation
from keras_mt.training.distribution import Worker, device_names, distribute, distributed
from keras_mt.training.guidance import choose_head, set_up_model, with_links
from keras_mt.training.lora import Adapters
from keras_mt.training.resolve import resolve, with_fingerprints
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

    Without a preset, `init` or another architecture, the recipe is fitted to the corpus, except for
    the options given; with `minutes` and a preset, the preset sets the model's shape. The learning
    rate of such a run, and of one with `minutes`, falls to 0 at its last step, where it ends for
    good.

    The folder holds `model.keras`, `tokenizer.model`, `config.json`, `log.csv`, `training.png` and
    `checkpoints/`. Called again on the same folder, it resumes from the last checkpoint. Options
    that are not given then are as they were, but for `seed`, `clean`, `tensorboard`, `devices` and
    an `architecture` of one's own; options that do not define the run, such as `epochs` or `steps`,
    may differ. The corpus must be given, and hold the same pairs, but may be elsewhere.

    With `init` the model and the tokenizer are that run's, and so are, unless given here, its
    languages, dropout, label smoothing, R-Drop, the schedule (`warmup_steps`, `learning_rate`,
    `clip_norm`), the size of an update (`batch_tokens`, `gradient_accumulation_steps`) and
    `max_length`. How the data are read, the seed, the dtype and which weights `model.keras` takes
    are not handed on. An imported model keeps its dropout and its `max_length`, and is trained
    without label smoothing at a rate that rises to 5e-5 in 100 updates (5e-4 with adapters). With
    `lora_rank` that run must not change for as long as this one is to be resumed.

    With `pairs` in place of `data`, `source` and `target` the model translates between several
    languages, as `keras_mt.Tokenizer` says, from any that is a source to any that is a target. Its
    vocabulary is trained on about as many characters of each language. It is
    validated on every pair whose corpus has a validation split.

    A Transformer without an `alignment_head` gets one at the end: the attention head that agrees
    best with word alignments learned from the corpus, unless the mean of the last layer's heads
    agrees better.

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
    request = corpora.requested(data, source, target, pairs, options)
    if output is None:
        raise InputError("output must be given: the run folder.")
    folder = RunFolder(output)
    if folder.path.is_file():
        raise InputError(f"{folder} is a file: give a folder for the run.")
    worker = Worker(folder, distribute(options.devices), report)
    worker.report(f"training on {device_names(worker.strategy)}")
    with contextlib.ExitStack() as held:
        with worker.chief_first():
            if worker.is_chief:
                held.enter_context(folder.locked())
            config, tokenizer, texts, base = _resolve(request, worker)
        run = _prepare(config, tokenizer, texts, base, options.architecture, worker)
        _train(run, worker, started)
        worker.leave()
    return folder.path


documented(train, TrainingOptions)
train.__signature__ = signature(train, TrainingOptions)


def _resolve(request, worker):
    """The configuration, the tokenizer, the text, and the run to begin from, if there is one."""
    folder, given = worker.folder, request.options
    folder.check_usable()
    begun = folder.config
    known = given if begun is None else given.completed(vars(begun.options))
    resumed = begun is not None and folder.last_checkpoint is not None
    base = load_base(known, given.architecture, resumed)
    tokenizer = corpora.existing_tokenizer(folder, given, base, worker.report)
    texts = corpora.read_corpora(request, worker, sampled=tokenizer is None)
    config = resolve(request, texts, begun, base, worker)
    if tokenizer is None:
        tokenizer = corpora.new_tokenizer(config, texts.samples, worker)
    if worker.in_cluster and worker.is_chief:
        # What is impossible is refused before the folder keeps it.
        set_up_model(config.options, make_model(config, tokenizer, base, given.architecture))
        _write(worker, config, tokenizer)  # The others read them.
    return config, tokenizer, texts, base


class _Prepared(NamedTuple):
    """All that a run begins with."""

    config: RunConfig
    tokenizer: BaseTokenizer
    model: keras.Model
    batches: Batches
    validation: Batches | None
    texts: dict[str, tf.data.Dataset]  # Those of validation, by pair.

    @property
    def validation_steps(self) -> int:
        return 0 if self.validation is None else self.validation.counts.batches


def _prepare(config, tokenizer, texts, base, architecture, worker):
    """Makes the model and the batches; refuses what is impossible before anything is encoded."""
    keras.utils.set_random_seed(config.options.seed)
    with worker.strategy.scope():
        model = make_model(config, tokenizer, base, architecture)
        set_up_model(config.options, model)
    if config.model_config is None:
        config = dataclasses.replace(config, model_config=_config_of(model))
    validation = corpora.validation_batches(config, texts, tokenizer, worker)
    batches = corpora.training_batches(config, texts, tokenizer, worker)
    prints = list(batches.encoded.fingerprints)
    if validation is not None:
        prints += validation.encoded.fingerprints
    config = with_fingerprints(config, texts, base, prints)
    batches = with_links(batches, config.options, worker)
    return _Prepared(config, tokenizer, model, batches, validation, texts.validation)


def _write(worker, config, tokenizer=None):
    """Writes what the folder does not hold yet of a configuration and a tokenizer."""
    if not worker.is_chief:
        return
    if config != worker.folder.config:
        worker.folder.write_config(config)
    if tokenizer is not None and not worker.folder.tokenizer_path.exists():
        worker.folder.save_tokenizer(tokenizer)


def _config_of(model):
    try:
        return json.loads(json.dumps(model.get_config()))
    except TypeError as error:
        raise InputError(
            f"{type(model).__name__}.get_config() must hold only what JSON can: {error}"
        ) from None


def _train(run, worker, started):
    """Fits the model, from the last checkpoint on, and writes it."""
    options, model, epoch_steps = run.config.options, run.model, run.batches.counts.batches
    last = plan.last_step(run.config, epoch_steps)
    if run.config.decays:
        run = run._replace(config=dataclasses.replace(run.config, total_steps=last))
    with worker.strategy.scope():
        adapters = None if options.lora_rank is None else Adapters(model, options.lora_rank)
        rate = _compile(model, run.config, last)
    checkpoints = Checkpoints(worker, model, plan.checkpoint_steps(run.config, last), adapters)
    start = checkpoints.restore()
    _write(worker, run.config, run.tokenizer)
    _report_start(run, adapters, last, worker)
    if start:
        worker.report(f"resumed at step {start} from {worker.folder.checkpoints}")
    log = RunLog(worker, checkpoints, run.texts, options.tensorboard)
    if last is None:
        start, last = _time_first_steps(run, worker, started, [checkpoints, log])
        rate.end_at(last)
        run = run._replace(config=dataclasses.replace(run.config, total_steps=last))
        checkpoints.every = plan.checkpoint_steps(run.config, last)
        _write(worker, run.config)
    best = KeepBest(worker, options, plan.monitor(options, last, epoch_steps), log.rows)
    if not best.stopped:
        due = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: checkpoints.save_if_due())
        _fit(run, worker, start, last, [*_scores(run), checkpoints, best, log, due])
    checkpoints.save()
    worker.report(f"stopped: {best.reason(last)}")
    if worker.is_chief:
        _finish(run, worker, checkpoints, adapters)


def _time_first_steps(run, worker, started, callbacks):
    """Trains for some steps of a run with `minutes`; returns their number, and the last step."""
    options, epoch_steps = run.config.options, run.batches.counts.batches
    watch = plan.Stopwatch(worker, options, started)
    timed = max(epoch_steps, plan.TIMED_STEPS)
    worker.report("timing the first steps")
    _fit(run, worker, 0, timed, [*callbacks, watch], validates=False)
    last = watch.last_step(run.validation_steps / epoch_steps)
    worker.report(f"{last:,} steps fit into {options.minutes:g} minutes")
    return len(watch.times), last


def _compile(model, config, last):
    """Compiles the model, and returns its learning rate; None is the paper's."""
    options, rate = config.options, config.options.learning_rate
    if config.decays:
        rate = plan.LateLinearDecay(options, model.d_model, last)
    names = "label_smoothing", "warmup_steps", "clip_norm", "gradient_accumulation_steps"
    arguments = {name: getattr(options, name) for name in (*names, "rdrop_weight")}
    compile_for_translation(model, learning_rate=rate, **arguments)
    model.optimizer.build(model.trainable_variables)
    return rate


def _scores(run):
    """The callback that measures BLEU, if it is to be measured."""
    config, every = run.config, run.config.options.bleu_freq
    if not every:
        return []
    translator = Translator(run.model, run.tokenizer, **config.languages)
    tokenize = bleu_tokenizer(target for *_, target in config.validated.values())
    return [TranslationScores(translator, run.texts, every, tokenize)]


def _report_start(run, adapters, last, worker):
    config, options, epoch_steps = run.config, run.config.options, run.batches.counts.batches
    name = f"that of {options.init}" if options.init else options.preset or options.architecture
    parameters = f"{run.model.count_params():,} parameters"
    if adapters is not None:
        parameters += f", {sum(math.prod(w.shape) for w in adapters.weights):,} of them trained"
    steps = "" if last is None else f"{last:,} steps, "
    worker.report(
        f"model: {name}, {parameters}, vocabulary "
        f"{run.tokenizer.vocab_size:,}; {steps}{epoch_steps:,} steps an epoch"
    )
    updates = (last or 0) // options.gradient_accumulation_steps
    if not config.decays and options.warmup_steps >= updates:
        worker.report(
            f"the learning rate rises until the end: the run has {updates:,} updates, and "
            f"warmup_steps={options.warmup_steps}. A tenth of the updates is a good start."
        )


def _fit(run, worker, start, last, callbacks, validates=True):
    """Calls `fit` from one step to another; shows no progress of steps that only are timed."""
    validated = run.validation_steps if validates else 0
    verbose = 0 if not (validates and worker.is_chief) else 1 if sys.stdout.isatty() else 2
    data = functools.partial(distributed, worker.strategy)
    for first, epoch, last_epoch, steps in _parts(start, last, run.batches.counts.batches):
        run.model.fit(
            data(functools.partial(run.batches.stream, first)),
            initial_epoch=epoch,
            epochs=last_epoch,
            steps_per_epoch=steps,
            validation_data=data(functools.partial(run.validation.epoch, 0)) if validated else None,
            validation_steps=validated or None,
            callbacks=callbacks,
            verbose=verbose,
        )
        if run.model.stop_training:
            break


def _parts(start, last_step, epoch_steps):
    """The calls of `fit` between two steps: first step, epoch, last epoch, steps an epoch.

    Keras counts whole epochs, so a partial first one and a partial last one get a call each.
    """
    while start < last_step:
        epoch, offset = divmod(start, epoch_steps)
        epochs, steps = (last_step - start) // epoch_steps, epoch_steps
        if offset or not epochs:
            epochs, steps = 1, min(epoch_steps - offset, last_step - start)
        yield start, epoch, epoch + epochs, steps
        start += epochs * steps


def _finish(run, worker, checkpoints, adapters):
    """Writes the model with the weights that the run is to end with."""
    config, folder, model, options = run.config, worker.folder, run.model, run.config.options
    best = folder.best_weights
    if options.weights == "best" and best.exists():
        model.load_weights(best)
        weights = model.get_weights() if adapters is None else adapters.merged()
    else:
        if options.weights == "best":
            worker.report(f"{best} is not there: model.keras takes the last weights, not the best")
        count = None if options.weights == "average" else 1
        weights = averaged(model, folder.checkpoints, count, adapters)
    if head := choose_head(model, weights, run.batches, run.validation, worker.report):
        model.alignment_head = head
        model_config = {**config.model_config, "alignment_head": list(head)}
        _write(worker, dataclasses.replace(config, model_config=model_config))
    folder.save_model(model, weights)
    if any(row["loss"] or row["val_loss"] for row in folder.read_log()):
        plot_run(folder.log_file, folder.plot_file)
    worker.report(f"finished at step {checkpoints.step}: {folder}")
