"""How many steps a run takes, and its learning rate over them."""

import math
import time

import keras
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.schedules import WarmupLinearDecay
from keras_mt.training.architecture import Run
from keras_mt.training.checkpoints import Logs

# Of a run whose end is set by its speed, until that is known.
_FAR = 10**9
_SAVED_STEPS = 500
# Checkpoints of a run whose end is known, and the maximum number of steps between two.
_CHECKPOINTS, _MOST_STEPS = 40, 1000
# The minimum number of steps that are worth a run.
_FEWEST_STEPS = 20
# Steps that are not timed, since TensorFlow traces the model in them, and a timing's seconds.
_UNTIMED, _TIMED_SECONDS = 5, 20.0
TIMED_STEPS = 20  # In a cluster, and at most where an epoch has fewer.
# A validation batch takes no backward pass; writing takes a share of the time too.
_FORWARD, _WRITING = 0.4, 0.03


class _Decay(WarmupLinearDecay):
    """One whose end may be set when training is compiled already."""

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        super().__init__(peak, warmup_steps, total_steps)
        self.warmup_steps, self.total_steps = (
            keras.Variable(steps, trainable=False, dtype="float32")
            for steps in (warmup_steps, total_steps)
        )

    def set_steps(self, warmup_steps, total_steps):
        self.warmup_steps.assign(warmup_steps)
        self.total_steps.assign(total_steps)


class Plan:
    """The steps of a run and its learning rate.

    Where the rate falls to 0 at the last step, that is `total_steps`. With `minutes`, the speed of
    the first steps sets it: until then `last_step` is None.
    """

    def __init__(self, run: Run, epoch_steps: int, started: float):
        self._run, self._epoch_steps, self._started = run, epoch_steps, started
        options, self.total_steps = run.options, run.config.total_steps
        ends = run.recommended is not None or options.minutes is not None
        last_step = options.steps
        if last_step is None and options.epochs is not None:
            last_step = options.epochs * epoch_steps
        if ends and self.total_steps is None:
            self.total_steps = last_step
        elif ends and last_step not in (None, self.total_steps):
            raise InputError(
                f"The learning rate of {run.folder} falls to 0 at step {self.total_steps}, where "
                f"it ends; it cannot end at step {last_step}. To train it further, give "
                f"`--init {run.folder}` and another output folder."
            )
        self._set(self.total_steps if ends else last_step)

    def _set(self, last_step):
        options, self.last_step = self._run.options, last_step
        if last_step is None:
            self.checkpoint_steps = _FAR
            return
        usual = _SAVED_STEPS
        if self.total_steps is not None or options.weights == "average":
            usual = min(max(last_step // _CHECKPOINTS, 1), _MOST_STEPS)
        self.checkpoint_steps = options.checkpoint_steps or usual

    @property
    def monitor(self) -> str:
        """What the best weights are the best by: BLEU if it is measured, else the loss."""
        epochs = math.ceil(self.last_step / self._epoch_steps)
        return "val_bleu" if 0 < self._run.options.bleu_freq <= epochs else "val_loss"

    def learning_rate(self, d_model: int) -> WarmupLinearDecay | float | None:
        """What `compile_for_translation` takes, for a model of that width."""
        values = self._run.config.options
        if self.last_step is not None and self.total_steps is None:
            return values["learning_rate"]
        peak = values["learning_rate"] or (d_model * values["warmup_steps"]) ** -0.5
        self._schedule = _Decay(peak, *self._updates(self.total_steps or _FAR))
        return self._schedule

    def _updates(self, steps):
        """The numbers of updates of the warm-up, a quarter of all at most, and of all."""
        values = self._run.config.options
        updates = max(steps // values["gradient_accumulation_steps"], 1)
        return min(values["warmup_steps"], max(updates // 4, 1)), updates

    def fix(self, watch: "Stopwatch", validation_batches: int) -> None:
        """Sets the last step by the speed of the first ones; refuses a time that is too short."""
        seconds, steps = _agreed(self._run.strategy, watch.seconds), watch.count
        minutes = self._run.options.minutes
        spent = time.monotonic() - self._started
        # Validation after each epoch, as a share of each step.
        seconds += _FORWARD * seconds * validation_batches / self._epoch_steps
        left = (60 * minutes - spent) * (1 - _WRITING)
        total_steps = steps + int(max(left, 0) / seconds)
        fewest = max(self._run.options.checkpoint_steps or 0, _FEWEST_STEPS)
        if total_steps < fewest:
            enough = (spent + (fewest - steps) * seconds / (1 - _WRITING)) / 60
            raise InputError(
                f"minutes={minutes:g} is too short for a checkpoint: starting took "
                f"{spent - steps * seconds:.0f} seconds, and a step takes {seconds:.2g}. Give at "
                f"least {math.ceil(enough)}."
            )
        self.total_steps = total_steps
        self._set(total_steps)
        self._schedule.set_steps(*self._updates(total_steps))


class Stopwatch(keras.callbacks.Callback):
    """Times the first steps of a run with `minutes`; workers stop after the same step."""

    def __init__(self, run: Run):
        super().__init__()
        self._limit, self._times = min(_TIMED_SECONDS, 1.2 * run.options.minutes), []
        self._steps = TIMED_STEPS if run.in_cluster else None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._times.append(time.monotonic())
        timed = self.count - _UNTIMED
        enough = timed > 0 and self._times[-1] - self._times[_UNTIMED - 1] > self._limit
        if enough if self._steps is None else self.count >= self._steps:
            self.model.stop_training = True

    @property
    def count(self) -> int:
        """Number of steps made."""
        return len(self._times)

    @property
    def seconds(self) -> float:
        """The mean time of a step."""
        first = min(_UNTIMED, self.count // 2)
        return (self._times[-1] - self._times[first]) / max(self.count - 1 - first, 1)


def _agreed(strategy, seconds):
    """The mean over all workers, so that they come to the same number of steps."""
    if strategy.cluster_resolver is None:
        return seconds
    value = strategy.run(lambda: tf.constant(seconds, tf.float64))
    return float(strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None))
