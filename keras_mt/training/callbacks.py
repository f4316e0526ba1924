"""Keras callbacks of a run: its log, its best weights, and the scores of its translations."""

import re
import time
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import LOG_COLUMNS
from keras_mt.training.checkpoints import Checkpoints, Logs
from keras_mt.training.distribution import Worker
from keras_mt.translation import Translator

_ROW_STEPS = 50  # From one row of the log to the next.
# Codes of languages that are written without spaces, in which BLEU must count characters.
_WITHOUT_SPACES = re.compile("(zh|zho|cmn|ja|jpn|th|tha|lo|lao|km|khm|my|mya)([-_].*)?", re.I)


def bleu_tokenizer(languages: Iterable[str]) -> str:
    """sacreBLEU's tokenizer for text in these languages.

    >>> bleu_tokenizer(["de"]), bleu_tokenizer(["zh_CN"])
    ('13a', 'char')
    """
    return "char" if any(map(_WITHOUT_SPACES.fullmatch, languages)) else "13a"


class TranslationScores(keras.callbacks.Callback):
    """Adds `val_bleu` and `val_chrf` to the logs of every so many epochs, by beam search.

    `pairs` are datasets of strings by their languages, `{"en-de": pairs}`, each of which has scores
    of its own too, or one by itself, `{"": pairs}`.
    """

    def __init__(
        self, translator: Translator, pairs: dict[str, tf.data.Dataset], every: int, tokenize: str
    ):
        import sacrebleu  # Not needed by most runs.

        super().__init__()
        self._sides = {}
        for name, part in pairs.items():
            texts = [[text.decode("utf-8") for text in pair] for pair in part.as_numpy_iterator()]
            if not texts:
                raise InputError("bleu_freq needs a validation split with at least one pair.")
            self._sides[name] = list(map(list, zip(*texts, strict=True)))
        self._translator, self._every = translator, every
        bleu = sacrebleu.BLEU(tokenize=tokenize)
        self._metrics = {"val_bleu": bleu, "val_chrf": sacrebleu.CHRF()}

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if (epoch + 1) % self._every:
            return
        scores = {name: [] for name in self._metrics}
        for pair, (sources, references) in self._sides.items():
            codes = zip(("source_language", "target_language"), pair.split("-"), strict=False)
            results = self._translator.hypotheses(sources, **(dict(codes) if pair else {}))
            translations = [hypotheses[0].text if hypotheses else "" for hypotheses in results]
            for name, metric in self._metrics.items():
                scores[name].append(metric.corpus_score(translations, [references]).score)
                if pair:
                    logs[f"{name}_{pair}"] = scores[name][-1]
        logs.update({name: sum(values) / len(values) for name, values in scores.items()})


class KeepBest(keras.callbacks.Callback):
    """Keeps the best weights by `val_loss` or `val_bleu`, and stops when nothing better comes.

    Unlike `keras.callbacks.EarlyStopping` it resumes where it stopped, from the log's rows.
    """

    def __init__(
        self, worker: Worker, options: TrainingOptions, monitor: str, rows: list[dict[str, str]]
    ):
        super().__init__()
        self._worker, self._monitor = worker, monitor
        self._patience = options.stop_after
        self._writes = options.weights == "best" and worker.is_chief
        self._sign = -1 if monitor == "val_loss" else 1
        self._values = [float(row[monitor]) for row in rows if row.get(monitor)]

    @property
    def stopped(self) -> bool:
        """True after `patience` measurements without a better one."""
        since = len(self._values) - self._best() - 1
        return self._patience is not None and since >= self._patience

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._monitor not in logs:
            return
        # As the log rounds it, so that a resumed run decides alike.
        self._values.append(float(f"{logs[self._monitor]:.6g}"))
        if self._writes and self._best() == len(self._values) - 1:
            with atomic_write(self._worker.folder.best_weights) as temporary:
                self.model.save_weights(temporary)
        if self.stopped:
            self.model.stop_training = True

    def reason(self, last: int) -> str:
        """Says why a run ended whose last step is this one."""
        if not self.stopped:
            return f"all {last:,} steps are done"
        best = f"{self._monitor} than {self._values[self._best()]}"
        return f"no better {best} in {self._patience} measurements"

    def _best(self):
        values = np.nan_to_num(self._sign * np.array(self._values), nan=-np.inf)
        return int(np.argmax(values)) if self._values else -1


class RunLog(keras.callbacks.Callback):
    """Writes `log.csv`: a row every 50 steps, one at the end of each epoch, and events.

    A row has means since the row before, after which the metrics are reset. The chief writes.
    """

    def __init__(
        self, worker: Worker, checkpoints: Checkpoints, pairs: Iterable[str], tensorboard: bool
    ):
        super().__init__()
        scores = [f"val_{name}_{pair}" for pair in pairs if pair for name in ("bleu", "chrf")]
        self._columns = [*LOG_COLUMNS, *scores]
        self._worker, self._folder, self._checkpoints = worker, worker.folder, checkpoints
        self._tensorboard, self._events = tensorboard, None
        step = checkpoints.step
        self.rows = [row for row in worker.folder.read_log() if int(row["step"]) <= step]
        self._start = None

    def on_train_begin(self, logs: Logs = None) -> None:
        if self._start is not None:  # `fit` is called more than once in a run.
            return
        self._start = time.monotonic()
        self._seconds_before = float(self.rows[-1]["seconds"] or 0) if self.rows else 0.0
        if not self._worker.is_chief:
            return
        self._folder.begin_log(self.rows, self._columns)
        if self._tensorboard:
            self._events = tf.summary.create_file_writer(str(self._folder.tensorboard))
        step = self._checkpoints.step
        self._write(step, event="resumed" if step else "started")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch, self._rate, self._reset_at = epoch + 1, {}, None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        step, is_last = self._checkpoints.step, batch + 1 == self.params["steps"]
        if batch == 0:  # Keras traces the model in it: it does not count for the rate.
            self._clock = time.monotonic(), _tokens(self.model)
        elif step % _ROW_STEPS == 0 or is_last:
            then, before = self._clock
            rate = (_tokens(self.model) - before) / (time.monotonic() - then)
            self._rate = {"tokens_per_second": round(rate)}
        logs.update(self._rate)
        if step % _ROW_STEPS == 0 and not is_last:
            self._write(step, {**self.model.get_metrics_result(), **self._rate})
            self.model.reset_metrics()
            self._reset_at = step
            self._clock = time.monotonic(), 0.0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._reset_at != self._checkpoints.step:  # Else `fit` was stopped at that row.
            self._write(self._checkpoints.step, {**logs, **self._rate})

    def _write(self, step, values=None, event=""):
        if not self._worker.is_chief:
            return
        seconds = self._seconds_before + time.monotonic() - self._start
        row = {"step": step, "seconds": round(seconds, 1), "event": event}
        if values is not None:
            values = {**values, "learning_rate": self.model.optimizer.learning_rate}
            values = {n: f"{float(v):.6g}" for n, v in values.items() if n in self._columns}
            row.update(values, epoch=self._epoch)
        self._folder.append_log(row, self._columns)
        if self._events is not None and values is not None:
            self._write_events(step, values)

    def _write_events(self, step, values):
        # `tf.summary.scalar` would need TensorBoard; its viewer takes this form as well.
        Summary = tf.compat.v1.Summary  # noqa: N806
        value = [Summary.Value(tag=n, simple_value=float(v)) for n, v in values.items()]
        summary = Summary(value=value)
        with self._events.as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=step)
        self._events.flush()


def _tokens(model):
    """The number of tokens since the metrics were reset, which the accuracy counts."""
    metrics = (each for part in model.metrics for each in getattr(part, "metrics", [part]))
    return float(next(each.count for each in metrics if each.name == "token_accuracy").numpy())
