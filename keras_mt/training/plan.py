"""The steps of a run, and its learning rate over them."""

import math
import time

import keras

from keras_mt.errors import InputError
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig
from keras_mt.schedules import WarmupLinearDecay
from keras_mt.training.checkpoints import Logs
from keras_mt.training.distribution import Worker

# The last step of a run whose end is set by its speed, until that is known.
_FAR = 10**9
_SAVED_STEPS = 500
# Of a run whose rate falls to 0, or whose checkpoints are averaged: the number of checkpoints, and
# the maximum number of steps between two.
_CHECKPOINTS, _MOST_STEPS = 40, 1000
# The minimum number of steps that are worth a run.
_FEWEST_STEPS = 20
# Steps that are not timed, since TensorFlow traces the model in them, and a timing's seconds.
_UNTIMED, _TIMED_SECONDS = 5, 20.0
TIMED_STEPS = 20  # Timed in a cluster. Elsewhere an epoch is, or this if it has fewer.
# A validation batch takes no backward pass; writing takes a share of the time too.
_FORWARD, _WRITING = 0.4, 0.03


def last_step(config: RunConfig, epoch_steps: int) -> int | None:
    """The step at which a run ends; None with `minutes`, until the first ones are timed.

    Where the learning rate falls to 0, it stays what it was when the run began.
    """
    asked = config.options.steps
    if config.options.epochs is not None:
        asked = config.options.epochs * epoch_steps
    if not config.decays or config.total_steps is None:
        return asked
    if asked not in (None, config.total_steps):
        raise InputError(
            f"The learning rate of the run falls to 0 at step {config.total_steps}, where it ends; "
            f"it cannot end at step {asked}. To train it further, give `--init` with its folder, "
            "and another output folder."
        )
    return config.total_steps


def checkpoint_steps(config: RunConfig, last: int | None) -> int:
    """The number of steps from one checkpoint to the next."""
    if last is None:
        return _FAR
    usual = _SAVED_STEPS
    if config.decays or config.options.weights == "average":
        usual = min(max(last // _CHECKPOINTS, 1), _MOST_STEPS)
    return config.options.checkpoint_steps or usual


def monitor(options: TrainingOptions, last: int, epoch_steps: int) -> str:
    """The measure by which the best weights are chosen: BLEU if it is measured, else the loss."""
    return "val_bleu" if 0 < options.bleu_freq <= math.ceil(last / epoch_steps) else "val_loss"


class LateLinearDecay(WarmupLinearDecay):
    """The schedule of a run, whose end may be set when training is compiled already.

    The schedule counts updates; a run counts batches, of which an update may take several.
    """

    def __init__(self, options: TrainingOptions, d_model: int, last: int | None) -> None:
        self._options = options
        peak = options.learning_rate or (d_model * options.warmup_steps) ** -0.5
        super().__init__(peak, warmup_steps=1, total_steps=1)
        self.warmup_steps, self.total_steps = (
            keras.Variable(1, trainable=False, dtype="float32") for _ in range(2)
        )
        self.end_at(last or _FAR)

    def end_at(self, last: int) -> None:
        """Sets the last step; the warm-up takes a quarter of all updates at most."""
        updates = max(last // self._options.gradient_accumulation_steps, 1)
        self.warmup_steps.assign(min(self._options.warmup_steps, max(updates // 4, 1)))
        self.total_steps.assign(updates)


class Stopwatch(keras.callbacks.Callback):
    """Times the first steps of a run with `minutes`; workers stop after the same step."""

    def __init__(self, worker: Worker, options: TrainingOptions, started: float):
        super().__init__()
        self._worker, self._options, self._started, self.times = worker, options, started, []

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.times.append(time.monotonic())
        count = len(self.times)
        enough = count >= TIMED_STEPS
        if not self._worker.in_cluster:
            timed = 0.0 if count < _UNTIMED else self.times[-1] - self.times[_UNTIMED - 1]
            enough = timed > min(_TIMED_SECONDS, 1.2 * self._options.minutes)
        if enough:
            self.model.stop_training = True

    def last_step(self, validation_share: float) -> int:
        """The last step that the minutes leave time for; too short a time is refused.

        `validation_share` is the number of validation batches for each step.
        """
        minutes, count = self._options.minutes, len(self.times)
        first = min(_UNTIMED, count // 2)
        step = (self.times[-1] - self.times[first]) / max(count - 1 - first, 1)
        # The mean of all workers, which thus come to the same number of steps.
        step = self._worker.mean(step) * (1 + _FORWARD * validation_share)
        spent = self._worker.mean(time.monotonic() - self._started)
        left = (60 * minutes - spent) * (1 - _WRITING)
        last = count + int(max(left, 0) / step)
        fewest = max(self._options.checkpoint_steps or 0, _FEWEST_STEPS)
        if last < fewest:
            enough = (spent + (fewest - count) * step / (1 - _WRITING)) / 60
            raise InputError(
                f"minutes={minutes:g} is too short for a checkpoint: starting took "
                f"{spent - count * step:.0f} seconds, and a step takes {step:.2g}. Give at "
                f"least {math.ceil(enough)}."
            )
        return last
