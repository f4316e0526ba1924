"""Keras callbacks of a run: checkpoints and the log."""

import csv
import math
import time

import keras
import numpy as np
import tensorflow as tf

from keras_mt.files import written_whole

LOG_COLUMNS = (
    "step",
    "epoch",
    "seconds",
    "loss",
    "token_accuracy",
    "perplexity",
    "learning_rate",
    "tokens_per_second",
    "val_loss",
    "val_token_accuracy",
    "val_perplexity",
    "event",
)


class Checkpoints(keras.callbacks.Callback):
    """Saves all that training goes on from, every so many steps and at the end.

    Weights, optimizer and dropout's random state are kept, in TensorFlow's checkpoint format: a
    checkpoint that was being written when the process died is not listed, so the one before it
    counts.

    Args:
        model: A compiled model.
        directory: Folder of the checkpoints.
        every: Number of steps from one checkpoint to the next.
        keep: Number of checkpoints to keep.
        report: Function that is told of each checkpoint.
    """

    def __init__(self, model, directory, every, keep=5, report=lambda message: None):
        super().__init__()
        self.every = every
        self.report = report
        model.optimizer.build(model.trainable_variables)
        # The weights first, as `average` reads them; then dropout's state and the optimizer's.
        weights = {id(weight) for weight in model.weights}
        others = [variable for variable in model.variables if id(variable) not in weights]
        variables = [*model.weights, *others, *model.optimizer.variables]
        self._iterations = model.optimizer.iterations
        self._weights = len(model.weights)
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(variables=[variable.value for variable in variables]),
            directory,
            max_to_keep=keep,
            checkpoint_name="step",
        )
        self._saved = None

    @property
    def step(self):
        """Number of updates made."""
        return int(self._iterations.numpy())

    def restore(self):
        """Restores the last checkpoint, if there is one; returns its step, or 0."""
        latest = self._manager.latest_checkpoint
        if latest:
            self._manager.checkpoint.restore(latest).assert_consumed()
            self._saved = self.step
        return self.step

    def average(self, count):
        """The means of the model's weights over the last `count` checkpoints, as NumPy arrays."""
        readers = [tf.train.load_checkpoint(path) for path in self._manager.checkpoints[-count:]]
        return [
            np.mean([reader.get_tensor(name) for reader in readers], axis=0)
            for name in (f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE" for i in range(self._weights))
        ]

    def on_train_batch_end(self, batch, logs=None):
        if self.step % self.every == 0:
            self._save()

    def on_train_end(self, logs=None):
        self._save()

    def _save(self):
        if self._saved != self.step:
            self._manager.save(checkpoint_number=self.step)
            self._saved = self.step
            self.report(f"checkpoint at step {self.step}")


class RunLog(keras.callbacks.Callback):
    """Writes `log.csv`: a row every so many steps, one at the end of each epoch, and events.

    Losses and metrics of training are means over the steps since the row before. It also adds
    `tokens/s`, real target tokens trained a second, to Keras's progress bar.

    Args:
        path: The file. When a run goes on from a step, rows after it are taken out first.
        start_step: The step that the run goes on from.
        every: Number of steps from one row to the next.
    """

    def __init__(self, path, start_step=0, every=50):
        super().__init__()
        self.path = path
        self.every = every
        kept = []
        if path.exists():
            with open(path, encoding="utf-8", newline="") as file:
                kept = [row for row in csv.DictReader(file) if int(row["step"]) <= start_step]
        self._seconds_before = float(kept[-1]["seconds"]) if kept else 0.0
        with (
            written_whole(path) as temporary,
            open(temporary, "w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, LOG_COLUMNS)
            writer.writeheader()
            writer.writerows(kept)
        self._start = time.monotonic()
        self._write(start_step, event="resumed" if start_step else "started")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch + 1
        self._last = time.monotonic(), {}
        self._rate = None

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations.numpy())
        if step % self.every == 0:
            self._write_means(step)
        elif batch == 0:  # In which Keras traces the model: not of the rate.
            self._last = time.monotonic(), self._totals()
        if self._rate:
            logs["tokens/s"] = self._rate

    def on_epoch_end(self, epoch, logs=None):
        validation = {name: value for name, value in logs.items() if name.startswith("val_")}
        self._write(int(self.model.optimizer.iterations.numpy()), validation)

    def _write_means(self, step):
        """Writes what came since the row before, from the metrics' own sums."""
        (then, before), now, totals = self._last, time.monotonic(), self._totals()
        counts = {name: totals[name][1] - before.get(name, (0, 0))[1] for name in totals}
        means = {
            name: (totals[name][0] - before.get(name, (0, 0))[0]) / counts[name]
            for name in totals
            if counts[name]
        }
        if "perplexity" in means:
            means["perplexity"] = math.exp(means["perplexity"])
        self._rate = counts.get("token_accuracy", 0) / (now - then)
        self._last = now, totals
        self._write(step, {**means, "tokens_per_second": round(self._rate)})

    def _totals(self):
        """The sum and the count of each metric of the epoch; the accuracy counts tokens."""
        return {
            part.name: (float(part.total.numpy()), float(part.count.numpy()))
            for metric in self.model.metrics
            for part in getattr(metric, "metrics", [metric])
        }

    def _write(self, step, values=None, event=""):
        seconds = self._seconds_before + time.monotonic() - self._start
        row = {"step": step, "seconds": round(seconds, 1), "event": event}
        if values is not None:
            row["epoch"] = self._epoch
            row["learning_rate"] = f"{float(self.model.optimizer.learning_rate):.6g}"
            row.update({n: f"{float(v):.6g}" for n, v in values.items() if n in LOG_COLUMNS})
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, LOG_COLUMNS).writerow(row)
