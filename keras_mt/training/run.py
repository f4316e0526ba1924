"""The run folder: a corpus and a preset in, a trained translator out, resumable at any time."""

import contextlib
import functools
import json
import math
import shutil
import sys
import time
from pathlib import Path

import keras
import sacrebleu
import tensorflow as tf

from keras_mt.data import Batches, Tokenizer, has_split, load_corpus
from keras_mt.files import written_whole
from keras_mt.layers.validation import check_rate
from keras_mt.losses import CrossEntropy
from keras_mt.metrics import Perplexity, TokenAccuracy
from keras_mt.models import PRESETS, Transformer
from keras_mt.plots import plot_run
from keras_mt.schedules import WarmupInverseSquareRoot
from keras_mt.training.accumulation import AccumulatedAdam, CountedCrossEntropy
from keras_mt.training.callbacks import (
    Checkpoints,
    KeepBest,
    RunLog,
    TranslationScores,
    averaged,
    read_log,
)
from keras_mt.training.distribution import (
    bridged,
    choose_strategy,
    distributed,
    is_chief,
    leaving_together,
)
from keras_mt.translator import Translator
from keras_mt.version import __version__

_DEFAULT_EPOCHS = 20
_FAILURE = ".failure"  # In the run folder: why the first worker stopped while the others waited.

# Arguments of `train` that must stay the same when a run goes on.
_CONFIG = (
    "data",
    "source",
    "target",
    "weights",
    "init",
    "preset",
    "seed",
    "vocab_size",
    "max_length",
    "max_ratio",
    "deduplicate",
    "subword_sampling",
    "batch_tokens",
    "accumulate",
    "dropout",
    "label_smoothing",
    "rdrop",
    "warmup_steps",
    "learning_rate",
    "clip_norm",
    "dtype",
    "monitor",
    "keep_best",
)


def train(
    data,
    source,
    target,
    output,
    *,
    weights=None,
    init=None,
    preset="tiny",
    epochs=None,
    steps=None,
    seed=1,
    vocab_size=8000,
    max_length=256,
    max_ratio=None,
    deduplicate=False,
    subword_sampling=None,
    batch_tokens=None,
    accumulate=1,
    dropout=None,
    label_smoothing=None,
    rdrop=0.0,
    warmup_steps=None,
    learning_rate=None,
    clip_norm=None,
    dtype="float32",
    checkpoint_steps=500,
    keep=5,
    average=1,
    bleu_epochs=0,
    bleu_tokenize="13a",
    monitor="val_loss",
    keep_best=False,
    early_stopping=None,
    tensorboard=False,
    devices=None,
    report=print,
):
    """Trains a translator with `model.fit` and writes a run folder.

    The folder holds `model.keras`, `tokenizer.model`, `config.json`, `log.csv`, `training.png` and
    `checkpoints/`. Called again on the same folder with the same arguments, it goes on from the
    last checkpoint; `epochs` or `steps` may then be larger.

    Args:
        data: `tfds:NAME`, a folder of `LANG.SPLIT.txt` or `SPLIT.LANG` files, a `.tsv` file, or
            `phrasebook`; or a list of such, the first of which is also validated on.
        source: Language code of the source.
        target: Language code of the target.
        output: The run folder.
        weights: How often an epoch sees each corpus, a list of integers; None for once.
        init: A run folder to begin from, whose model and tokenizer are taken.
        preset: `"tiny"`, `"base"` or `"big"`: the model, and what of the arguments below is None.
        epochs: Number of passes over the corpus; 20 unless `steps` is given.
        steps: Number of batches, instead of `epochs`.
        seed: Seed of the weights, of dropout and of the order of the data.
        vocab_size: Upper bound of the joint vocabulary, in pieces.
        max_length: The longest sentence, in pieces with the end: longer pairs are left out of
            training and counted, and the trained model takes none longer.
        max_ratio: Pairs of which one side has over so many times the other's tokens are left out.
        deduplicate: Whether pairs that stand before in their corpus are left out.
        subword_sampling: Draws other segmentations in each epoch, with this `alpha`; None for the
            most probable ones. See `Tokenizer.sample`.
        batch_tokens: Tokens a batch on each side, padding included.
        accumulate: Number of batches that make one update, as if they were one.
        dropout: Rate of dropout.
        label_smoothing: Share of the label that is spread over the vocabulary.
        rdrop: Weight of the R-Drop loss; 0 for none. See `Transformer`.
        warmup_steps: Number of updates over which the learning rate rises.
        learning_rate: The rate that it rises to; None for the paper's,
            `(d_model * warmup_steps) ** -0.5`.
        clip_norm: The greatest norm of all gradients together; None for any.
        dtype: `"float32"`, or a policy such as `"mixed_bfloat16"`.
        checkpoint_steps: Number of steps from one checkpoint to the next.
        keep: Number of last checkpoints to keep.
        average: Number of last checkpoints, at most `keep`, whose weights are averaged into
            `model.keras`, as Vaswani et al. 2017 do with 5.
        bleu_epochs: Number of epochs from one measurement of BLEU and chrF on the validation split
            to the next; 0 for none.
        bleu_tokenize: sacreBLEU's tokenizer; `"none"` for text that is tokenized already.
        monitor: `"val_loss"` or `"val_bleu"`: what the next two go by.
        keep_best: Whether `model.keras` takes the best weights instead of the last ones.
        early_stopping: Number of measurements without a better one after which to stop; None for
            never.
        tensorboard: Whether to write `tensorboard/` too, the values of `log.csv` for TensorBoard,
            which comes with `pip install 'keras_mt[tensorboard]'`.
        devices: Number of devices of this machine to train on; None for all. See `distribute`.
        report: Function that is told what happens, a line at a time.

    Returns:
        The run folder's path.

    Raises:
        ValueError: If an argument or the corpus is not usable, or the folder holds another run.
        FloatingPointError: If the loss is no number.
        OSError: If a file cannot be written.

    Example:

    >>> train("phrasebook", "pt", "en", "runs/pt_en", epochs=10)  # doctest: +SKIP
    """
    arguments = locals()
    _check(arguments)
    config = _config(arguments)
    corpora = config["data"] if isinstance(config["data"], list) else [config["data"]]
    run_dir = Path(output)
    # Before the workers meet, so that a mark which one of them finds later is of this start.
    (run_dir / _FAILURE).unlink(missing_ok=True)
    strategy = choose_strategy(devices)
    with bridged(strategy), leaving_together(strategy):
        chief = is_chief(strategy)
        report = report if chief else _silent
        with _failure_marked(run_dir, chief and strategy.cluster_resolver is not None):
            pairs = [load_corpus(name, source, target, "train") for name in corpora]
            if not chief:
                _wait_for_chief(run_dir)
            architecture = _architecture_to_go_on_with(run_dir)
            base = None if init is None or architecture else Translator.load(init)
            _check_folder(run_dir, config)
            tokenizer = _tokenizer(run_dir, base, pairs, vocab_size, seed, report)
            batches = Batches(
                pairs,
                tokenizer,
                tokens_per_batch=config["batch_tokens"],
                max_length=max_length,
                seed=seed,
                subword_sampling=subword_sampling,
                weights=weights,
                max_ratio=max_ratio,
                deduplicate=deduplicate,
                directory=run_dir,
            )
            report(f"train: {batches.counts}")
            if not batches.counts.batches:
                raise ValueError(
                    f"{', '.join(corpora)} has no pair of at most max_length={max_length} tokens."
                )
            last_step = _last_step(arguments, batches.counts.batches)
            validation_pairs, validation = _validation(
                arguments, corpora[0], tokenizer, config["batch_tokens"], report
            )
            architecture = architecture or _architecture(config, base, tokenizer)
            if chief:
                _write_run(run_dir, {**config, "model": architecture}, tokenizer)

        keras.utils.set_random_seed(seed)
        with strategy.scope():
            model = Transformer.from_config(architecture)
            if base is not None:
                model.set_weights(base.models[0].get_weights())
            compile_for_translation(
                model,
                config["label_smoothing"],
                config["warmup_steps"],
                learning_rate,
                clip_norm=clip_norm,
                accumulate=accumulate,
            )
            model.optimizer.build(model.trainable_variables)
        checkpoints = Checkpoints(
            model, run_dir / "checkpoints", checkpoint_steps, keep=keep, report=report, write=chief
        )
        start = checkpoints.restore()
        name = preset if init is None else f"that of {init}"
        report(
            f"model: {name}, {model.count_params():,} parameters, vocabulary {model.vocab_size:,}; "
            f"{last_step:,} steps, {batches.counts.batches:,} an epoch"
        )
        if start:
            report(f"resumed at step {start} from {run_dir / 'checkpoints'}")
        log = RunLog(
            run_dir / "log.csv",
            checkpoints,
            write=chief,
            tensorboard=run_dir / "tensorboard" if tensorboard else None,
        )
        best = KeepBest(
            monitor,
            run_dir / "checkpoints" / "best.weights.h5" if keep_best and chief else None,
            early_stopping,
            log.rows,
            report,
        )
        callbacks = [checkpoints, best, log]
        if bleu_epochs:
            translator = Translator(model, tokenizer)
            callbacks.insert(
                0, TranslationScores(translator, validation_pairs, bleu_epochs, bleu_tokenize)
            )
        callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=checkpoints.end_epoch))
        _fit(model, strategy, batches, validation, start, last_step, callbacks, best, chief)
        checkpoints.save()
        if chief:
            kept = keep_best and best.path.exists()
            if keep_best and not kept:
                report(
                    f"{best.path} is not there: model.keras takes the last weights, not the best"
                )
            if kept:
                model.load_weights(best.path)
                trained = model.get_weights()
            else:
                # A run that stopped early may have fewer.
                trained = averaged(model, checkpoints.directory, min(average, checkpoints.count))
            save_model(model, trained, run_dir / "model.keras")
            if any(row["loss"] or row["val_loss"] for row in read_log(log.path)):
                plot_run(log.path, run_dir / "training.png")
            report(f"finished at step {checkpoints.step}: {run_dir}")
    return run_dir


def compile_for_translation(
    model,
    label_smoothing=0.1,
    warmup_steps=4000,
    learning_rate=None,
    clip_norm=None,
    accumulate=1,
):
    """Compiles a Transformer as the paper trains it.

    Adam (0.9, 0.98, 1e-9) under the warm-up schedule, label-smoothed cross-entropy over the real
    tokens, token accuracy and perplexity.

    Args:
        model: A `keras_mt.Transformer`.
        label_smoothing: Share of the label that is spread over the vocabulary.
        warmup_steps: Number of updates over which the learning rate rises.
        learning_rate: The rate that it rises to; None for the paper's.
        clip_norm: The greatest norm of all gradients together; None for any.
        accumulate: Number of batches that make one update, as if they were one.
    """
    peak = learning_rate or (model.d_model * warmup_steps) ** -0.5
    schedule = WarmupInverseSquareRoot(model.d_model, warmup_steps, peak)
    recipe = {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "global_clipnorm": clip_norm}
    if accumulate == 1:
        optimizer = keras.optimizers.Adam(schedule, **recipe)
        loss = CrossEntropy(label_smoothing=label_smoothing)
    else:
        optimizer = AccumulatedAdam(schedule, accumulate, **recipe)
        loss = CountedCrossEntropy(optimizer, label_smoothing=label_smoothing)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        metrics=[TokenAccuracy(), Perplexity()],
        # XLA compiles each batch shape anew for half a minute: more than it saves on short runs.
        jit_compile=False,
    )


def average_run(run_dir, output, last=5, dtype="float32"):
    """Makes a run folder whose model has the mean weights of another run's last checkpoints.

    Args:
        run_dir: The run folder; the run need not be at its end.
        output: The new one.
        last: Number of checkpoints.
        dtype: Dtype of the weights that are written: "float32", or "bfloat16", half as large. What
            loads the folder computes in float32 with either.

    Returns:
        The new folder's path.

    Raises:
        ValueError: If there are not so many checkpoints.
        FileExistsError: If the new folder is there.

    Reference:
        Vaswani et al. 2017, Attention Is All You Need, section 6.1, with 5 checkpoints.

    Example:

    >>> average_run("runs/en_de", "runs/en_de_averaged", last=10)  # doctest: +SKIP
    """
    run_dir, output = Path(run_dir), Path(output)
    if output.exists():
        raise FileExistsError(f"{output} exists; give a new folder.")
    for name in ("config.json", "tokenizer.model", "checkpoints"):
        if not (run_dir / name).exists():
            raise FileNotFoundError(f"{run_dir} is not a run folder to average: it has no {name}.")
    config = json.loads((run_dir / "config.json").read_text(encoding="utf-8"))
    architecture = config.get("model")
    if architecture is None:  # A folder of before it was written there.
        base = Translator.load(config["init"]) if config["init"] else None
        architecture = _architecture(config, base, Tokenizer.load(run_dir / "tokenizer.model"))
    model = Transformer.from_config(architecture)
    weights = averaged(model, run_dir / "checkpoints", last)
    output.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(output) as temporary:
        temporary.mkdir()
        for name in ("tokenizer.model", "config.json", "log.csv"):
            shutil.copyfile(run_dir / name, temporary / name)
        save_model(model, weights, temporary / "model.keras", dtype)
    return output


def save_model(model, weights, path, dtype="float32"):
    """Writes a model with other weights and of another dtype: not compiled, whole or not at all."""
    copy = Transformer.from_config({**model.get_config(), "dtype": dtype})
    copy.set_weights(weights)
    with written_whole(path) as temporary:
        copy.save(temporary)


def _check(arguments):
    """Refuses arguments of `train` that are impossible."""
    preset, epochs, steps = (arguments[name] for name in ("preset", "epochs", "steps"))
    average, keep = arguments["average"], arguments["keep"]
    if preset not in PRESETS:
        raise ValueError(f"Unknown preset {preset!r}; there are {', '.join(PRESETS)}.")
    if epochs is not None and steps is not None:
        raise ValueError("Give epochs or steps, not both.")
    least = dict.fromkeys(
        (
            "epochs",
            "steps",
            "accumulate",
            "checkpoint_steps",
            "early_stopping",
            "warmup_steps",
            "devices",
        ),
        1,
    )
    for name, minimum in {**least, "bleu_epochs": 0, "rdrop": 0}.items():
        value = arguments[name]
        if value is not None and not value >= minimum:
            raise ValueError(f"{name} must be at least {minimum}. Received: {name}={value}")
    for name in ("learning_rate", "clip_norm"):
        value = arguments[name]
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0. Received: {name}={value}")
    if not 0 <= arguments["seed"] < 2**32:
        raise ValueError(
            f"seed must be at least 0 and below 2**32. Received: seed={arguments['seed']}"
        )
    if not 1 <= average <= keep:
        raise ValueError(f"average must be from 1 to keep. Received: {average=}, {keep=}")
    if arguments["keep_best"] and average > 1:
        raise ValueError("keep_best takes the weights of one checkpoint: leave average at 1.")
    monitor = arguments["monitor"]
    if monitor not in ("val_loss", "val_bleu"):
        raise ValueError(f"monitor must be val_loss or val_bleu. Received: {monitor=}")
    if monitor == "val_bleu" and not arguments["bleu_epochs"]:
        raise ValueError("monitor=val_bleu needs bleu_epochs, how often to measure it.")
    tokenizers, tokenize = sacrebleu.BLEU.TOKENIZERS, arguments["bleu_tokenize"]
    if tokenize not in tokenizers:
        raise ValueError(
            f"bleu_tokenize must be one of {', '.join(tokenizers)}. "
            f"Received: bleu_tokenize={tokenize!r}"
        )
    if arguments["bleu_epochs"]:
        sacrebleu.BLEU(tokenize=tokenize)  # Some need packages of their own.


def _silent(message):
    pass


@contextlib.contextmanager
def _failure_marked(run_dir, others_wait):
    """Leaves word of what fails within for `_wait_for_chief`, if other workers wait."""
    try:
        yield
    except BaseException as error:
        if others_wait:
            with contextlib.suppress(OSError):
                run_dir.mkdir(parents=True, exist_ok=True)
                with written_whole(run_dir / _FAILURE) as temporary:
                    temporary.write_text(str(error) or type(error).__name__, encoding="utf-8")
        raise


def _wait_for_chief(run_dir):
    """Waits until the first worker has written the tokenizer, in a folder that all share."""
    for _ in range(2 * 3600):
        if (run_dir / "tokenizer.model").exists():
            return
        if (run_dir / _FAILURE).exists():
            why = (run_dir / _FAILURE).read_text(encoding="utf-8")
            raise RuntimeError(f"The first worker has stopped: {why}")
        time.sleep(0.5)
    raise TimeoutError(
        f"The first worker has not written {run_dir / 'tokenizer.model'} within an hour: see its "
        "messages."
    )


def _config(arguments):
    """What of the arguments of `train` makes the run, the preset's recipe filled in."""
    data, init = arguments["data"], arguments["init"]
    data = [str(name) for name in (data if isinstance(data, (list, tuple)) else [data])]
    preset = PRESETS[arguments["preset"]]
    recipe = {**preset["training"], "dropout": preset["model"]["dropout"]}
    config = {
        **{name: arguments[name] for name in _CONFIG},
        "data": data[0] if len(data) == 1 else data,
        "init": None if init is None else str(init),
        **{n: v if arguments[n] is None else arguments[n] for n, v in recipe.items()},
    }
    for name in ("dropout", "label_smoothing"):
        check_rate(**{name: config[name]})
    if config["rdrop"] and not config["dropout"]:
        raise ValueError(f"rdrop needs dropout. Received: rdrop={config['rdrop']}, dropout=0")
    return json.loads(json.dumps(config))  # As the file gives it back.


def _last_step(arguments, batches):
    """The step that a run with so many batches an epoch ends at; refuses what would be missing."""
    epochs, steps = arguments["epochs"], arguments["steps"]
    bleu_epochs, checkpoint_steps = arguments["bleu_epochs"], arguments["checkpoint_steps"]
    last_step = steps or (epochs or _DEFAULT_EPOCHS) * batches
    run_epochs = math.ceil(last_step / batches)
    by_bleu = arguments["keep_best"] and arguments["monitor"] == "val_bleu"
    if by_bleu and bleu_epochs > run_epochs:
        raise ValueError(
            f"keep_best has nothing to go by: with {bleu_epochs=} BLEU is never measured in "
            f"{run_epochs} epochs."
        )
    average, saved = arguments["average"], math.ceil(last_step / checkpoint_steps)
    if average > saved:
        raise ValueError(
            f"average={average} takes as many checkpoints, and with {checkpoint_steps=} a run "
            f"of {last_step} steps has {saved}."
        )
    return last_step


def _validation(arguments, corpus, tokenizer, batch_tokens, report):
    """The pairs of a corpus's split validation and their batches; None for what there is not."""
    source, target, max_length = (arguments[name] for name in ("source", "target", "max_length"))
    needed = arguments["keep_best"] or arguments["early_stopping"]
    if not has_split(corpus, source, target, "validation"):
        if needed or arguments["bleu_epochs"]:
            raise ValueError(f"{corpus} has no split validation to measure on.")
        return None, None
    pairs = load_corpus(corpus, source, target, "validation")
    batches = Batches(pairs, tokenizer, tokens_per_batch=batch_tokens, max_length=max_length)
    report(f"validation: {batches.counts}")
    if batches.counts.batches:
        return pairs, batches
    if needed and arguments["monitor"] == "val_loss":
        raise ValueError(
            f"{corpus} has no pair of at most max_length={max_length} tokens in its split "
            "validation to measure on."
        )
    return pairs, None


def _architecture(config, base, tokenizer):
    """The configuration of the model that a run begins with."""
    if base is None:
        model = {**PRESETS[config["preset"]]["model"], "vocab_size": tokenizer.vocab_size}
    else:
        model = base.models[0].get_config()
    return {**model, **{name: config[name] for name in ("dropout", "max_length", "rdrop", "dtype")}}


def _architecture_to_go_on_with(run_dir):
    """The configuration of the model of a run that has a checkpoint; None if it is not known."""
    path = run_dir / "config.json"
    if not path.exists() or tf.train.latest_checkpoint(str(run_dir / "checkpoints")) is None:
        return None
    return json.loads(path.read_text(encoding="utf-8")).get("model")


def _fit(model, strategy, batches, validation, start, last_step, callbacks, best, chief):
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

    Keras counts whole epochs, so what is left of a broken one, and a last broken one, go alone.
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


def _check_folder(run_dir, config):
    """Makes the run folder, or sees that the one that is there holds the same run."""
    path = run_dir / "config.json"
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = [name for name in config if before.get(name) != config[name]]
        if changed:
            raise ValueError(
                f"{run_dir} holds a run with other arguments: "
                + ", ".join(f"{n} was {before.get(n)!r}, now {config[n]!r}" for n in changed)
                + ". Give it the same ones to go on with it, or another output folder."
            )
    elif run_dir.exists() and any(not path.name.startswith(".") for path in run_dir.iterdir()):
        raise ValueError(f"{run_dir} is not empty and holds no run: give another output folder.")
    else:
        run_dir.mkdir(parents=True, exist_ok=True)


def _tokenizer(run_dir, base, pairs, vocab_size, seed, report):
    path = run_dir / "tokenizer.model"
    if path.exists():
        return Tokenizer.load(path)
    if base is not None:
        return base.tokenizer
    report(f"training the tokenizer, at most {vocab_size:,} pieces")
    texts = (t for corpus in pairs for pair in corpus.as_numpy_iterator() for t in pair)
    return Tokenizer.train(texts, vocab_size, seed=seed)


def _write_run(run_dir, config, tokenizer):
    """Writes what makes the run, unless it is there: not before it is known to be possible."""
    if not (run_dir / "config.json").exists():
        text = json.dumps({**config, "keras_mt": __version__}, indent=2) + "\n"
        with written_whole(run_dir / "config.json") as temporary:
            temporary.write_text(text, encoding="utf-8")
    if not (run_dir / "tokenizer.model").exists():
        tokenizer.save(run_dir / "tokenizer.model")
