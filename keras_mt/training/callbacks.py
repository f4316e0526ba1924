"""Keras callbacks of a run: its log, its best weights, and the scores of its translations."""

import itertools
import math
import re
import time
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.files import atomic_write
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import LOG_COLUMNS
from keras_mt.training.checkpoints import Checkpoints, Logs
from keras_mt.training.distribution import Worker
from keras_mt.translation.interface import BaseTranslator

_ROW_STEPS = 50  # From one row of the log to the next.
# Codes of languages that are written without spaces, in which BLEU must count characters.
_WITHOUT_SPACES = re.compile("(zh|zho|cmn|ja|jpn|th|tha|lo|lao|km|khm|my|mya)([-_].*)?", re.I)


class PairLosses(keras.callbacks.Callback):
    """Adds the validation loss of each pair of languages to an epoch's logs: `val_loss_en-de`.

    `steps` has the numbers of validation batches by pair. Callbacks that use the losses come after.
    """

    def __init__(self, steps: Mapping[str, int]):
        super().__init__()
        self._losses = {}
        ends = itertools.accumulate(steps.values())
        self._ends = {end: name for name, end in zip(steps, ends, strict=True) if steps[name]}

    def on_test_begin(self, logs: Logs = None) -> None:
        self._before, self._losses = (0.0, 0.0), {}

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        if batch + 1 in self._ends:
            now, before = _totals(self.model)["loss"], self._before
            loss = (now[0] - before[0]) / max(now[1] - before[1], 1)
            self._losses[f"val_loss_{self._ends[batch + 1]}"] = loss
            self._before = now

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        logs.update(self._losses)


def bleu_tokenizer(languages: Iterable[str]) -> str:
    """sacreBLEU's tokenizer for text in these languages.

    >>> bleu_tokenizer(["de"]), bleu_tokenizer(["zh_CN"])
    ('13a', 'char')
    """
    return "char" if any(map(_WITHOUT_SPACES.fullmatch, languages)) else "13a"


class TranslationScores(keras.callbacks.Callback):
    """Adds `val_bleu` and `val_chrf` to an epoch's logs: sacreBLEU of beam-searched translations.

    Put it before the callbacks that use them, such as `keras.callbacks.EarlyStopping`.

    Args:
        translator: A `Translator` with the model that is trained.
        pairs: `tf.data.Dataset` of pairs of strings, as `load_corpus` returns. For a model of
            several languages a dict of such, as `{"en-de": pairs}`: then `val_bleu` and `val_chrf`
            are means over these, which also have their own, `val_bleu_en-de` and so on.
        every: Number of epochs from one measurement to the next.
        tokenize: sacreBLEU's tokenizer; `"none"` for text that is tokenized already.

    Example:

    >>> scores = TranslationScores(translator, validation_pairs)  # doctest: +SKIP
    >>> model.fit(batches.epoch(0), callbacks=[scores])  # doctest: +SKIP
    """

    def __init__(
        self,
        translator: BaseTranslator,
        pairs: tf.data.Dataset | Mapping[str, tf.data.Dataset],
        every: int = 1,
        tokenize: str = "13a",
    ):
        import sacrebleu  # Not needed by most runs.

        super().__init__()
        self._sides = {}
        for name, part in (pairs if isinstance(pairs, Mapping) else {"": pairs}).items():
            texts = [[text.decode("utf-8") for text in pair] for pair in part.as_numpy_iterator()]
            if not texts:
                raise InputError("pairs must have at least one pair of texts. Received: none")
            self._sides[name] = list(map(list, zip(*texts, strict=True)))
        self.translator = translator
        self.every = every
        self._bleu, self._chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if (epoch + 1) % self.every:
            return
        scores = {"val_bleu": [], "val_chrf": []}
        for pair, (sources, references) in self._sides.items():
            codes = zip(("source_language", "target_language"), pair.split("-"), strict=False)
            results = self.translator.hypotheses(sources, **(dict(codes) if pair else {}))
            translations = [hypotheses[0].text if hypotheses else "" for hypotheses in results]
            for name, metric in (("val_bleu", self._bleu), ("val_chrf", self._chrf)):
                scores[name].append(metric.corpus_score(translations, [references]).score)
                if pair:
                    logs[f"{name}_{pair}"] = scores[name][-1]
        logs.update({name: sum(values) / len(values) for name, values in scores.items()})


class KeepBest(keras.callbacks.Callback):
    """Keeps the best weights by `val_loss` or `val_bleu`, and stops when nothing better comes.

    Unlike `keras.callbacks.EarlyStopping` it resumes where it stopped, from the log's rows.
    """

    def __init__(
        self,
        worker: Worker,
        options: TrainingOptions,
        monitor: str,
        log: Iterable[Mapping[str, str]],
    ):
        super().__init__()
        self._worker, self._monitor = worker, monitor
        self._patience = options.early_stopping_patience
        self._writes = options.weights == "best" and worker.is_chief
        self._sign = -1 if monitor == "val_loss" else 1
        self._values = [float(row[monitor]) for row in log if row.get(monitor)]

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
            best = f"{self._monitor} than {self._values[self._best()]}"
            self._worker.report(f"no better {best} in {self._patience} measurements")
            self.model.stop_training = True

    def _best(self):
        values = np.nan_to_num(self._sign * np.array(self._values), nan=-np.inf)
        return int(np.argmax(values)) if self._values else -1


class RunLog(keras.callbacks.Callback):
    """Writes `log.csv`: a row every 50 steps, one at the end of each epoch, and events.

    A row has means since the row before: metrics over the tokens, losses as in Keras over the
    batches. Of several workers the chief writes, but all read the metrics, which they share.
    """

    def __init__(
        self,
        worker: Worker,
        checkpoints: Checkpoints,
        pairs: Iterable[str] = (),
        tensorboard: bool = False,
    ):
        super().__init__()
        names = [f"{name}_{pair}" for pair in pairs if pair for name in ("loss", "bleu", "chrf")]
        self._columns = [*LOG_COLUMNS, *(f"val_{name}" for name in names)]
        self._worker, self._folder = worker, worker.folder
        self._tensorboard, self._events = tensorboard, None
        self._checkpoints = checkpoints
        self.rows = [
            row for row in worker.folder.read_log() if int(row["step"]) <= checkpoints.step
        ]
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
        self._epoch = epoch + 1
        self._before, self._means, self._rate = {}, {}, None

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        step = self._checkpoints.step
        if batch == 0:  # Keras traces the model in it: it does not count for the rate.
            self._clock = time.monotonic(), _totals(self.model)
        if step % _ROW_STEPS == 0:
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
        totals, (then, counted), now = _totals(self.model), self._clock, time.monotonic()
        means = {}
        for name, (total, count) in totals.items():
            total_before, count_before = self._before.get(name, (0, 0))
            if count > count_before:
                means[name] = (total - total_before) / (count - count_before)
        if "perplexity" in means:
            means["perplexity"] = math.exp(means["perplexity"])
        tokens = [x["token_accuracy"][1] for x in (counted, totals) if "token_accuracy" in x]
        if len(tokens) == 2 and tokens[1] > tokens[0]:
            self._rate = (tokens[1] - tokens[0]) / (now - then)
            means["tokens_per_second"] = round(self._rate)
        self._before, self._clock = totals, (now, totals)
        return means

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


def _totals(model):
    """The sum and the count of each metric of the epoch; the accuracy counts tokens."""
    return {
        part.name: (float(part.total.numpy()), float(part.count.numpy()))
        for metric in model.metrics
        for part in getattr(metric, "metrics", [metric])
    }
