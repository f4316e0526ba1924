"""Keras callbacks of a run: checkpoints and the log."""

import csv
import os
import time

import keras
import numpy as np
import tensorflow as tf

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

    Losses and metrics of training are means over the epoch so far. It also adds `tokens/s`, real
    target tokens trained a second, to Keras's progress bar.

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
        temporary = path.with_name(f".{path.name}")
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, LOG_COLUMNS)
            writer.writeheader()
            writer.writerows(kept)
        os.replace(temporary, path)
        self._start = time.monotonic()
        self._write(start_step, event="resumed" if start_step else "started")

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._last = epoch + 1, (time.monotonic(), 0.0)

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations.numpy())
        if batch == 0 or step % self.every == 0:
            # The accuracy counts the tokens of the epoch. Before the first batch ends, Keras traces
            # the model: that is no rate to show.
            tokens, now = self._tokens(), time.monotonic()
            self._rate = None
            if batch:
                self._rate = (tokens - self._last[1]) / (now - self._last[0])
                self._write(step, logs, tokens_per_second=round(self._rate))
            self._last = now, tokens
        if self._rate:
            logs["tokens/s"] = self._rate

    def on_epoch_end(self, epoch, logs=None):
        self._write(int(self.model.optimizer.iterations.numpy()), logs)

    def _tokens(self):
        for metric in self.model.metrics:
            for part in getattr(metric, "metrics", [metric]):
                if part.name == "token_accuracy":
                    return float(part.count.numpy())
        return 0.0

    def _write(self, step, logs=None, **row):
        seconds = self._seconds_before + time.monotonic() - self._start
        row.update({"step": step, "seconds": round(seconds, 1)})
        for name, value in (logs or {}).items():
            if name in LOG_COLUMNS:
                row[name] = f"{float(value):.6g}"
        if logs:
            row["epoch"] = self._epoch
            row["learning_rate"] = f"{float(self.model.optimizer.learning_rate):.6g}"
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, LOG_COLUMNS).writerow(row)
