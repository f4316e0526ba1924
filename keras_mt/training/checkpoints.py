"""Checkpoints of a run, all that it resumes from, and the mean weights of several."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder
from keras_mt.run_folder import RunFolder
from keras_mt.training.architecture import load_base, make_model
from keras_mt.training.distribution import Worker
from keras_mt.training.lora import Adapters

_KEPT = 5  # As many as Vaswani et al. 2017 average.
# What Keras hands to callbacks: losses and metrics by name.
Logs = dict[str, Any] | None


class Checkpoints(keras.callbacks.Callback):
    """Saves every so many steps all that training resumes from; stops at what is not finite.

    TensorFlow lists a checkpoint once it is whole. One that is due at the end of an epoch is saved
    by `save_if_due`, after validation and log: a process that dies before then does both again.
    """

    def __init__(
        self, worker: Worker, model: keras.Model, every: int, adapters: Adapters | None = None
    ):
        super().__init__()
        self.every = every
        self._worker, self._directory = worker, worker.folder.checkpoints
        # The weights first, as `averaged` reads them; then dropout's state and the optimizer's.
        weights = {id(weight) for weight in model.weights}
        others = [variable for variable in model.variables if id(variable) not in weights]
        self._weights = model.weights if adapters is None else adapters.weights
        variables = [*self._weights, *others, *model.optimizer.variables]
        self._step = tf.Variable(0, dtype=tf.int64)
        values = [variable.value for variable in variables]
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(step=self._step, variables=values),
            self._directory,
            max_to_keep=_KEPT,
            checkpoint_name="step",
        )
        self._saved = None

    @property
    def step(self) -> int:
        """Number of batches trained on; an optimizer may make one update in several."""
        return int(self._step.numpy())

    def restore(self) -> int:
        """Restores the last checkpoint that is whole, if there is one; returns its step, or 0."""
        for path in reversed(self._manager.checkpoints):
            try:
                self._manager.checkpoint.restore(path).assert_consumed()
            except (tf.errors.OpError, IndexError) as error:
                why = _first_line(error)
                self._worker.report(f"{path} is damaged ({why}): the one before is used")
                continue
            except (AssertionError, ValueError) as error:
                raise InputError(
                    f"{path} is whole, but its variables are not this run's: other versions of "
                    "keras_mt or Keras wrote it (config.json says which). Go on with those, or "
                    "begin a new run with its weights: `keras-mt average "
                    f"{self._worker.folder} NEW_DIR --last 1`, then `--init NEW_DIR`."
                ) from error
            self._saved = self.step
            return self.step
        if self._manager.checkpoints:
            raise InputError(
                f"Every checkpoint in {self._directory} is damaged: put them back from a copy, or "
                "begin anew in another output folder."
            )
        return 0

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self._step.assign_add(1)
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise self._not_finite(f"The loss is {loss}")
        if batch + 1 < self.params["steps"]:
            self.save_if_due()

    def save_if_due(self) -> None:
        """Saves if this step is one of every so many."""
        if self.step % self.every == 0:
            self.save()

    def save(self) -> None:
        """Saves, unless this step was saved already."""
        if self._saved == self.step or not self._worker.is_chief:
            return
        for weight in self._weights:
            if not tf.reduce_all(tf.math.is_finite(weight.value)):
                raise self._not_finite(f"The weight {weight.path} is not finite")
        path = self._directory / f"step-{self.step}"
        try:
            self._manager.save(checkpoint_number=self.step)
        except (tf.errors.OpError, OSError) as error:
            raise OSError(
                f"The checkpoint {path} could not be written: {_first_line(error)}. Free space on "
                "that disk, or mend what else is wrong, and give the same command again: it goes "
                "on from the checkpoint before, or begins anew."
            ) from error
        self._saved = self.step
        self._worker.report(f"checkpoint at step {self.step}")

    def _not_finite(self, what):
        last = f"step {self._saved}, in {self._directory}" if self._saved else "none"
        return FloatingPointError(
            f"{what} at step {self.step}; the last good checkpoint: {last}. Train into another "
            "folder with a lower learning rate, a longer warm-up or clipped gradients. To begin "
            "from a checkpoint: `keras-mt average RUN OUTPUT --last 1`, then `--init OUTPUT`."
        )


def averaged(
    model: keras.Model, directory: Path, count: int | None, adapters: Adapters | None = None
) -> list[np.ndarray]:
    """The means of a model's weights over a folder's last checkpoints, with adapters merged.

    `count` is the number of checkpoints; None for all.
    """
    state = tf.train.get_checkpoint_state(str(directory))
    paths = list(state.all_model_checkpoint_paths) if state else []
    count = len(paths) if count is None else count
    if not 1 <= count <= len(paths):
        raise InputError(
            f"{directory} has {len(paths)} checkpoints, not {count}: give at most {len(paths)}."
        )
    try:
        readers = [tf.train.load_checkpoint(path) for path in paths[-count:]]
        weights = model.weights if adapters is None else adapters.weights
        names = [f"variables/{i}/.ATTRIBUTES/VARIABLE_VALUE" for i in range(len(weights))]
        if adapters is not None:
            return adapters.merged([[each.get_tensor(name) for name in names] for each in readers])
        return [np.mean([each.get_tensor(name) for each in readers], axis=0) for name in names]
    except (tf.errors.OpError, ValueError, IndexError) as error:
        raise InputError(
            f"One of the last {count} checkpoints in {directory} cannot be read "
            f"({_first_line(error)}): take fewer, or go on with the run, which writes others."
        ) from error


def average_run(
    run_dir: str | Path,
    output: str | Path,
    last: int = 5,
    dtype: str = "float32",
    architecture: str | type | None = None,
) -> Path:
    """Makes a run folder whose model has the mean weights of another run's last checkpoints.

    It has no checkpoints: training goes on from it only as `init` of another run. `dtype` is that
    of the weights as written: "float32", or "bfloat16", half as large.
    """
    folder, output = RunFolder(run_dir), Path(output)
    check_new(output)
    config = folder.config
    if config is None or not folder.tokenizer_path.exists() or not folder.checkpoints.exists():
        raise FileNotFoundError(
            f"{folder} has no checkpoints to average: it must have config.json, a tokenizer and "
            f"{folder.checkpoints.name}/."
        )
    base, adapters = load_base(config.options, architecture, resumed=True), None
    tokenizer = folder.load_tokenizer()
    model = make_model(config, tokenizer, base, architecture)
    if base is not None:
        base.check_unchanged(config)
        adapters = Adapters(model, config.options.lora_rank)
    weights = averaged(model, folder.checkpoints, last, adapters)
    with new_folder(output) as temporary:
        run = RunFolder(temporary)
        options = dataclasses.replace(config.options, weights="average")
        run.save_tokenizer(tokenizer)
        run.write_config(dataclasses.replace(config, options=options))
        run.save_model(model, weights, dtype)
    return output


def _first_line(error):
    line = (str(error) or type(error).__name__).splitlines()[0]
    return re.sub(r"\{\{.*?\}\} *| *\[Op:\w+\]", "", line)[:200]  # TensorFlow's own.
