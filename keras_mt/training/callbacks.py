"""Keras callbacks of a run: checkpoints and the log."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.run_folder import LOG_COLUMNS, RunFolder
from keras_mt.training.lora import Adapters
from keras_mt.translation.base import BaseTranslator

# What Keras hands to callbacks: losses and metrics by name.
Logs = dict[str, Any] | None


class Checkpoints(keras.callbacks.Callback):
    """Saves all that training resumes from, every so many steps.

    Weights, optimizer, dropout's random state and the step are kept, in TensorFlow's checkpoint
    format: a checkpoint that was being written when the process died is not listed, so the one
    before it is used. A loss or a weight that is not finite stops training before it is saved.

    A checkpoint due at the end of an epoch is saved by `end_epoch`, which must be called after that
    epoch was validated and logged: a process that dies in between validates and logs it again.

    Args:
        model: A compiled model.
        directory: Folder of the checkpoints.
        every: Number of steps from one checkpoint to the next.
        keep: Number of checkpoints to keep.
        report: Function that is called with a message about each checkpoint.
        write: Whether to write; of several workers only the chief does.
        adapters: The adapters, if they alone are trained and saved; None for all of the model's
            weights.

    Attributes:
        step: Number of steps made, that is of batches; an optimizer that accumulates gradients
            makes one update in several steps.

    Raises:
        FloatingPointError: If the loss or a weight is not finite, in training.
        OSError: If a checkpoint cannot be written, in training.
    """

    def __init__(
        self,
        model: keras.Model,
        directory: str | Path,
        every: int,
        keep: int = 5,
        report: Callable[[str], Any] = lambda message: None,
        write: bool = True,
        adapters: Adapters | None = None,
    ):
        super().__init__()
        self.directory = directory
        self.every = every
        self.write = write
        self.report = report
        model.optimizer.build(model.trainable_variables)
        # The weights first, as `averaged` reads them; then dropout's state and the optimizer's.
        weights = {id(weight) for weight in model.weights}
        others = [variable for variable in model.variables if id(variable) not in weights]
        self._weights = model.weights if adapters is None else adapters.weights
        variables = [*self._weights, *others, *model.optimizer.variables]
        self._shapes = {_key(i): list(each.shape) for i, each in enumerate(variables)}
        self._step = tf.Variable(0, dtype=tf.int64)
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(
                step=self._step, variables=[variable.value for variable in variables]
            ),
            directory,
            max_to_keep=keep,
            checkpoint_name="step",
        )
        self._saved = None

    @property
    def step(self) -> int:
        return int(self._step.numpy())

    @property
    def count(self) -> int:
        """Number of checkpoints that are kept."""
        return len(self._manager.checkpoints)

    def restore(self) -> int:
        """Restores the last checkpoint that is whole, if there is one; returns its step, or 0.

        Raises:
            ValueError: If all are damaged, or one holds other variables than the run has now.
        """
        for path in reversed(self._manager.checkpoints):
            try:
                self._check_fits(path)
                self._manager.checkpoint.restore(path).assert_consumed()
            except (tf.errors.OpError, IndexError, AssertionError) as error:
                self.report(f"{path} is damaged ({_first_line(error)}): the one before is used")
                continue
            self._saved = self.step
            return self.step
        if self._manager.checkpoints:
            raise InputError(
                f"Every checkpoint in {self.directory} is damaged: put them back from a copy, or "
                "begin anew in another output folder."
            )
        return 0

    def _check_fits(self, path):
        """Refuses a checkpoint that is whole, but of other variables."""
        found = tf.train.load_checkpoint(path).get_variable_to_shape_map()
        found = {name: shape for name, shape in found.items() if name.startswith("variables/")}
        if found == self._shapes:
            return
        what = f"{len(found)} variables, and this run has {len(self._shapes)}"
        if len(found) == len(self._shapes):
            what = "variables of other shapes than this run has"
        raise InputError(
            f"{path} is whole, but holds {what}: other versions of keras_mt or Keras wrote it "
            "(config.json says which). Go on with those, or begin a new run with its weights: "
            f"`keras-mt average {self.directory.parent} NEW_DIR --last 1`, then `--init NEW_DIR`."
        )

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._step.assign_add(1)
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise self._not_finite(f"The loss is {loss}")
        if batch + 1 < self.params["steps"]:
            self.end_epoch()

    def end_epoch(self, epoch: int | None = None, logs: Logs = None) -> None:
        if self.step % self.every == 0:
            self.save()

    def save(self) -> None:
        """Saves, unless this step was saved already."""
        if self._saved == self.step or not self.write:
            return
        for weight in self._weights:
            if not tf.reduce_all(tf.math.is_finite(weight.value)):
                raise self._not_finite(f"The weight {weight.path} is not finite")
        try:
            self._manager.save(checkpoint_number=self.step)
        except (tf.errors.OpError, OSError) as error:
            raise OSError(
                f"The checkpoint of step {self.step} could not be written to {self.directory}: "
                f"{_first_line(error)}. That of step {self._saved or 0} is untouched."
            ) from error
        self._saved = self.step
        self.report(f"checkpoint at step {self.step}")

    def _not_finite(self, what):
        last, instead = "none", ""
        if self._saved:
            last = f"step {self._saved}, in {self.directory}"
            instead = (
                " To begin from that checkpoint: `keras-mt average RUN_DIR NEW_DIR --last 1`, then "
                "`--init NEW_DIR`."
            )
        return FloatingPointError(
            f"{what} at step {self.step}; the last good checkpoint: {last}. Train into another "
            f"folder with a lower learning rate, a longer warm-up or clipped gradients.{instead}"
        )


def _key(i):
    # The name of variable i in a checkpoint.
    return f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE"


def averaged(
    model: keras.Model, directory: str | Path, count: int, adapters: Adapters | None = None
) -> list[np.ndarray]:
    """The means of a model's weights over the last checkpoints of a folder, as NumPy arrays.

    Args:
        model: The model, or one like it.
        directory: Folder that `Checkpoints` wrote.
        count: Number of checkpoints.
        adapters: The model's adapters, which are then merged into the weights; None for none.

    Raises:
        ValueError: If there are fewer checkpoints, or one cannot be read.
    """
    state = tf.train.get_checkpoint_state(str(directory))
    paths = list(state.all_model_checkpoint_paths) if state else []
    if not paths:
        raise InputError(f"{directory} has no checkpoints to average.")
    if not 1 <= count <= len(paths):
        raise InputError(
            f"{directory} has {len(paths)} checkpoints, not {count}: average at least 1 and at "
            "most that many."
        )
    try:
        readers = [tf.train.load_checkpoint(path) for path in paths[-count:]]
        weights = model.weights if adapters is None else adapters.weights
        names = [_key(i) for i in range(len(weights))]
        if adapters is not None:
            return adapters.merged([[each.get_tensor(name) for name in names] for each in readers])
        return [np.mean([reader.get_tensor(name) for reader in readers], axis=0) for name in names]
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise InputError(
            f"One of the last {count} checkpoints in {directory} cannot be read "
            f"({_first_line(error)}): take fewer, or go on with the run, which writes others."
        ) from error


class TranslationScores(keras.callbacks.Callback):
    """Adds `val_bleu` and `val_chrf` to an epoch's logs: sacreBLEU of beam-searched translations.

    Put it before the callbacks that use them, such as `keras.callbacks.EarlyStopping`.

    Args:
        translator: A `Translator` with the model that is trained.
        pairs: `tf.data.Dataset` of pairs of strings, as `load_corpus` returns.
        every: Number of epochs from one measurement to the next.
        tokenize: sacreBLEU's tokenizer; `"none"` for text that is tokenized already.

    Example:

    >>> scores = TranslationScores(translator, validation_pairs)  # doctest: +SKIP
    >>> model.fit(batches.epoch(0), callbacks=[scores])  # doctest: +SKIP
    """

    def __init__(
        self,
        translator: BaseTranslator,
        pairs: tf.data.Dataset,
        every: int = 1,
        tokenize: str = "13a",
    ):
        import sacrebleu  # Not needed by most runs.

        super().__init__()
        texts = [[text.decode("utf-8") for text in pair] for pair in pairs.as_numpy_iterator()]
        if not texts:
            raise InputError("pairs must have at least one pair of texts. Received: none")
        self.sources, self.references = map(list, zip(*texts, strict=True))
        self.translator = translator
        self.every = every
        self._bleu, self._chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if (epoch + 1) % self.every:
            return
        found = self.translator.hypotheses(self.sources)
        translations = [hypotheses[0].text if hypotheses else "" for hypotheses in found]
        for name, metric in (("val_bleu", self._bleu), ("val_chrf", self._chrf)):
            logs[name] = metric.corpus_score(translations, [self.references]).score


class KeepBest(keras.callbacks.Callback):
    """Keeps the best weights, and stops when nothing better has come for a while.

    Unlike `keras.callbacks.EarlyStopping` it resumes where it stopped, from what the log holds.

    Args:
        monitor: `"val_loss"`, of which the lowest is best, or `"val_bleu"`, the highest.
        path: The file of weights to write, ending in `.weights.h5`; None to keep none.
        patience: Number of measurements without a better one after which to stop; None for never.
        log: The rows of `log.csv` up to now, as dicts.
        report: Function that is called with a message when training stops.
    """

    def __init__(
        self,
        monitor: str,
        path: Path | None = None,
        patience: int | None = None,
        log: Iterable[Mapping[str, str]] = (),
        report: Callable[[str], Any] = lambda message: None,
    ):
        super().__init__()
        self.monitor = monitor
        self.path = path
        self.patience = patience
        self.report = report
        self._sign = -1 if monitor == "val_loss" else 1
        self._values = [float(row[monitor]) for row in log if row.get(monitor)]

    @property
    def stopped(self) -> bool:
        """Whether there were `patience` measurements without a better one."""
        since = len(self._values) - self._best() - 1
        return self.patience is not None and bool(self._values) and since >= self.patience

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.monitor not in logs:
            return
        # As the log rounds it, so that a resumed run decides alike.
        self._values.append(float(f"{logs[self.monitor]:.6g}"))
        if self.path is not None and self._best() == len(self._values) - 1:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self.path) as temporary:
                self.model.save_weights(temporary)
        if self.stopped:
            best = self._values[self._best()]
            self.report(f"no better {self.monitor} than {best} in {self.patience} measurements")
            self.model.stop_training = True

    def _best(self):
        values = np.nan_to_num(self._sign * np.array(self._values), nan=-np.inf)
        return int(np.argmax(values)) if self._values else -1


class RunLog(keras.callbacks.Callback):
    """Writes `log.csv`: a row every so many steps, one at the end of each epoch, and events.

    Losses and metrics of training are means since the row before: metrics over the tokens, losses
    as in Keras over the batches, weighted by their rows. It also adds `tokens/s`, the real target
    tokens trained per second, to Keras's progress bar.

    Args:
        folder: The `RunFolder`. When a run resumes, rows after its step are removed first.
        checkpoints: The run's `Checkpoints`, a callback before this one, which counts the steps.
        every: Number of steps from one row to the next.
        write: Whether to write; of several workers only the chief does, but all have to read the
            metrics, which they share.
        tensorboard: Whether to write the values for TensorBoard too.

    Attributes:
        rows: The rows from before this training, dicts of strings.
    """

    def __init__(
        self,
        folder: RunFolder,
        checkpoints: Checkpoints,
        every: int = 50,
        write: bool = True,
        tensorboard: bool = False,
    ):
        super().__init__()
        self.folder = folder
        self.every = every
        self.write = write
        self.tensorboard = tensorboard
        self._events = None
        self._checkpoints = checkpoints
        self.rows = [row for row in folder.read_log() if int(row["step"]) <= checkpoints.step]
        self._start = None

    def on_train_begin(self, logs: Logs = None) -> None:
        if self._start is not None:  # `fit` is called more than once in a run.
            return
        self._start = time.monotonic()
        self._seconds_before = float(self.rows[-1]["seconds"]) if self.rows else 0.0
        if not self.write:
            return
        self.folder.begin_log(self.rows)
        if self.tensorboard:
            self._events = tf.summary.create_file_writer(str(self.folder.tensorboard))
        step = self._checkpoints.step
        self._write(step, event="resumed" if step else "started")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch + 1
        self._before, self._means, self._rate = {}, {}, None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        step = self._checkpoints.step
        if batch == 0:  # Keras traces the model in it: it does not count for the rate.
            self._clock = time.monotonic(), self._totals()
        if step % self.every == 0:
            self._write(step, self._since_the_row_before())
        elif batch + 1 == self.params["steps"]:  # Validation resets the metrics.
            self._means = self._since_the_row_before()
        if self._rate:
            logs["tokens/s"] = self._rate

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        validation = {name: value for name, value in logs.items() if name.startswith("val_")}
        self._write(self._checkpoints.step, {**self._means, **validation})

    def _since_the_row_before(self):
        """Means and the rate, from the metrics' own sums."""
        totals, (then, counted), now = self._totals(), self._clock, time.monotonic()
        means = {}
        for name, (total, count) in totals.items():
            total_before, count_before = self._before.get(name, (0, 0))
            if count > count_before:
                means[name] = (total - total_before) / (count - count_before)
        if "perplexity" in means:
            means["perplexity"] = math.exp(means["perplexity"])
        tokens = [
            each["token_accuracy"][1] for each in (counted, totals) if "token_accuracy" in each
        ]
        if len(tokens) == 2 and tokens[1] > tokens[0]:
            self._rate = (tokens[1] - tokens[0]) / (now - then)
            means["tokens_per_second"] = round(self._rate)
        self._before, self._clock = totals, (now, totals)
        return means

    def _totals(self):
        """The sum and the count of each metric of the epoch; the accuracy counts tokens."""
        return {
            part.name: (float(part.total.numpy()), float(part.count.numpy()))
            for metric in self.model.metrics
            for part in getattr(metric, "metrics", [metric])
        }

    def _write(self, step, values=None, event=""):
        if not self.write:
            return
        seconds = self._seconds_before + time.monotonic() - self._start
        row = {"step": step, "seconds": round(seconds, 1), "event": event}
        if values is not None:
            values = {**values, "learning_rate": self.model.optimizer.learning_rate}
            values = {n: f"{float(v):.6g}" for n, v in values.items() if n in LOG_COLUMNS}
            row.update(values, epoch=self._epoch)
        self.folder.append_log(row)
        if self._events is not None and values is not None:
            self._write_events(step, values)

    def _write_events(self, step, values):
        # `tf.summary.scalar` would need TensorBoard; its viewer takes this form as well.
        Summary = tf.compat.v1.Summary  # noqa: N806
        summary = Summary(
            value=[Summary.Value(tag=n, simple_value=float(v)) for n, v in values.items()]
        )
        with self._events.as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)
        self._events.flush()


def _first_line(error):
    return (str(error) or type(error).__name__).splitlines()[0][:200]
