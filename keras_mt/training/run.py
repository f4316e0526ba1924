"""The run folder: a corpus and a preset in, a trained translator out, resumable at any time."""

import json
import sys
from pathlib import Path

import keras

from keras_mt.data import Batches, Tokenizer, has_split, load_corpus
from keras_mt.files import written_whole
from keras_mt.losses import CrossEntropy
from keras_mt.metrics import Perplexity, TokenAccuracy
from keras_mt.models import PRESETS, Transformer
from keras_mt.schedules import WarmupInverseSquareRoot
from keras_mt.training.callbacks import Checkpoints, RunLog
from keras_mt.version import __version__

_DEFAULT_EPOCHS = 20


def train(
    data,
    source,
    target,
    output,
    *,
    preset="tiny",
    epochs=None,
    steps=None,
    seed=1,
    vocab_size=8000,
    max_length=256,
    batch_tokens=None,
    dropout=None,
    label_smoothing=None,
    warmup_steps=None,
    rdrop=0.0,
    subword_sampling=None,
    checkpoint_steps=500,
    keep=5,
    average=1,
    report=print,
):
    """Trains a translator with `model.fit` and writes a run folder.

    The folder holds `model.keras`, `tokenizer.model`, `config.json`, `log.csv` and `checkpoints/`.
    Called again on the same folder with the same arguments, it goes on from the last checkpoint;
    `epochs` or `steps` may then be larger.

    Args:
        data: `tfds:NAME`, a folder of `LANG.SPLIT.txt` or `SPLIT.LANG` files, a `.tsv` file, or
            `phrasebook`.
        source: Language code of the source.
        target: Language code of the target.
        output: The run folder.
        preset: `"tiny"`, `"base"` or `"big"`: the model, and what of the arguments below is None.
        epochs: Number of passes over the corpus; 20 unless `steps` is given.
        steps: Number of updates, instead of `epochs`.
        seed: Seed of the weights, of dropout and of the order of the data.
        vocab_size: Upper bound of the joint vocabulary, in pieces.
        max_length: The longest sentence, in pieces with the end: longer pairs are left out of
            training and counted, and the trained model takes none longer.
        batch_tokens: Tokens a batch on each side, padding included.
        dropout: Rate of dropout.
        label_smoothing: Share of the label that is spread over the vocabulary.
        warmup_steps: Number of updates over which the learning rate rises.
        rdrop: Weight of the R-Drop loss; 0 for none. See `Transformer`.
        subword_sampling: Draws other segmentations in each epoch, with this `alpha`; None for the
            most probable ones. See `Tokenizer.sample`.
        checkpoint_steps: Number of steps from one checkpoint to the next.
        keep: Number of last checkpoints to keep.
        average: Number of last checkpoints, at most `keep`, whose weights are averaged into
            `model.keras`, as Vaswani et al. 2017 do with 5.
        report: Function that is told what happens, a line at a time.

    Returns:
        The run folder's path.

    Raises:
        ValueError: If an argument or the corpus is not usable, or the folder holds another run.

    Example:

    >>> train("phrasebook", "pt", "en", "runs/pt_en", epochs=10)  # doctest: +SKIP
    """
    if preset not in PRESETS:
        raise ValueError(f"Unknown preset {preset!r}; there are {', '.join(PRESETS)}.")
    if epochs is not None and steps is not None:
        raise ValueError("Give epochs or steps, not both.")
    for name, value in (("epochs", epochs), ("steps", steps)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1. Received: {name}={value}")
    if not 1 <= average <= keep:
        raise ValueError(
            f"average must be from 1 to keep. Received: average={average}, keep={keep}"
        )
    recipe = {**PRESETS[preset]["training"], "dropout": PRESETS[preset]["model"]["dropout"]}
    given = {
        "batch_tokens": batch_tokens,
        "dropout": dropout,
        "label_smoothing": label_smoothing,
        "warmup_steps": warmup_steps,
    }
    recipe.update({name: value for name, value in given.items() if value is not None})
    config = {
        "data": str(data),
        "source": source,
        "target": target,
        "preset": preset,
        "seed": seed,
        "vocab_size": vocab_size,
        "max_length": max_length,
        **recipe,
        "rdrop": rdrop,
        "subword_sampling": subword_sampling,
    }
    run_dir = Path(output)
    pairs = load_corpus(data, source, target, "train")
    _open_folder(run_dir, config)

    tokenizer = _tokenizer(run_dir, pairs, vocab_size, seed, report)
    batches = Batches(
        pairs,
        tokenizer,
        tokens_per_batch=recipe["batch_tokens"],
        max_length=max_length,
        seed=seed,
        subword_sampling=subword_sampling,
    )
    report(f"train: {batches.counts}")
    if not batches.counts.batches:
        raise ValueError(f"{data} has no pair of at most max_length={max_length} tokens.")
    validation = None
    if has_split(data, source, target, "validation"):
        validation = Batches(
            load_corpus(data, source, target, "validation"),
            tokenizer,
            tokens_per_batch=recipe["batch_tokens"],
            max_length=max_length,
        )
        report(f"validation: {validation.counts}")

    keras.utils.set_random_seed(seed)
    model = Transformer.from_preset(
        preset,
        vocab_size=tokenizer.vocab_size,
        dropout=recipe["dropout"],
        max_length=max_length,
        rdrop=rdrop,
    )
    compile_for_translation(model, recipe["label_smoothing"], recipe["warmup_steps"])
    checkpoints = Checkpoints(
        model, run_dir / "checkpoints", checkpoint_steps, keep=keep, report=report
    )
    start = checkpoints.restore()

    epoch_steps = batches.counts.batches
    last_step = steps or (epochs or _DEFAULT_EPOCHS) * epoch_steps
    report(
        f"model: {preset}, {model.count_params():,} parameters, vocabulary {model.vocab_size:,}; "
        f"{last_step:,} steps, {epoch_steps:,} an epoch"
    )
    if start:
        report(f"resumed at step {start} from {run_dir / 'checkpoints'}")
    if start < last_step:
        callbacks = [checkpoints, RunLog(run_dir / "log.csv", start)]
        for first, epoch, last_epoch, epoch_part in _parts(start, last_step, epoch_steps):
            model.fit(
                batches.stream(first),
                initial_epoch=epoch,
                epochs=last_epoch,
                steps_per_epoch=epoch_part,
                validation_data=validation and validation.epoch(0),
                callbacks=callbacks,
                shuffle=False,  # The batches are shuffled already; else Keras warns.
                verbose=1 if sys.stdout.isatty() else 2,
            )
    _save_model(model, checkpoints.average(average), run_dir / "model.keras")
    report(f"finished at step {checkpoints.step}: {run_dir}")
    return run_dir


def compile_for_translation(model, label_smoothing=0.1, warmup_steps=4000):
    """Compiles a Transformer as the paper trains it.

    Adam (0.9, 0.98, 1e-9) under the warm-up schedule, label-smoothed cross-entropy over the real
    tokens, token accuracy and perplexity.

    Args:
        model: A `keras_mt.Transformer`.
        label_smoothing: Share of the label that is spread over the vocabulary.
        warmup_steps: Number of updates over which the learning rate rises.
    """
    model.compile(
        optimizer=keras.optimizers.Adam(
            WarmupInverseSquareRoot(model.d_model, warmup_steps),
            beta_1=0.9,
            beta_2=0.98,
            epsilon=1e-9,
        ),
        loss=CrossEntropy(label_smoothing=label_smoothing),
        metrics=[TokenAccuracy(), Perplexity()],
        # XLA compiles each batch shape anew for half a minute: more than it saves on short runs.
        jit_compile=False,
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


def _open_folder(run_dir, config):
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
    elif run_dir.exists() and any(run_dir.iterdir()):
        raise ValueError(f"{run_dir} is not empty and holds no run: give another output folder.")
    else:
        run_dir.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**config, "keras_mt": __version__}, indent=2) + "\n"
        with written_whole(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _tokenizer(run_dir, pairs, vocab_size, seed, report):
    path = run_dir / "tokenizer.model"
    if not path.exists():
        report(f"training the tokenizer, at most {vocab_size:,} pieces")
        texts = (text for pair in pairs.as_numpy_iterator() for text in pair)
        Tokenizer.train(texts, vocab_size, seed=seed).save(path)
    return Tokenizer.load(path)


def _save_model(model, weights, path):
    # A copy, not compiled: the optimizer's state is in the checkpoints.
    copy = Transformer.from_config(model.get_config())
    copy.set_weights(weights)
    with written_whole(path) as temporary:
        copy.save(temporary)
