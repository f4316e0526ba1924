"""A run folder: the names of its files, its configuration and its log."""

import contextlib
import csv
import dataclasses
import importlib.metadata
import json
import os
import tempfile
import typing
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_mt.errors import InputError
from keras_mt.files import (
    DiskError,
    atomic_write,
    disk_errors,
    find_export,
    new_folder,
    owned,
    remove_leftovers,
)
from keras_mt.options import LanguageOptions, TrainingOptions, TranslationOptions
from keras_mt.options.fields import field_type, from_keywords
from keras_mt.options.training import MAY_CHANGE
from keras_mt.version import __version__

if TYPE_CHECKING:  # What a run is can be read without them.
    import keras
    import numpy as np

    from keras_mt.text import BaseTokenizer

LOG_COLUMNS = (
    *("step", "epoch", "seconds", "loss", "token_accuracy", "perplexity", "learning_rate"),
    *("tokens_per_second", "val_loss", "val_token_accuracy", "val_perplexity"),
    *("val_bleu", "val_chrf", "event"),
)

SCHEMA = 3  # The form of config.json.
_WEIGHTS = "model.weights.h5"  # In model.keras.
# What is raised of a damaged file, or of one that is not what it says, by Keras and h5py too.
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, AttributeError)
_UNREADABLE += (zipfile.BadZipFile, zlib.error)
# The options that config.json leaves out: they are of a start, or of a machine.
_NOT_KEPT = ("tokenizer", "devices")


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A run: its corpora, its options, and what came of them; config.json holds it.

    A request is one too: in it, options that were not given are None where that is their default.
    """

    data: list[str]  # The corpora.
    source: str  # Language codes; "mul" for a run with `pairs`.
    target: str
    options: TrainingOptions = dataclasses.field(default_factory=TrainingOptions)
    pairs: dict[str, str] | None = None  # The corpora by their languages: `{"en-de": DATA}`.
    fitted: bool = False  # True if the options were fitted to the corpus.
    # The step at which the learning rate has fallen to 0; None where it does not, or is not known.
    total_steps: int | None = None
    license: str | None = None  # Of an imported model, and of models trained from it.
    trimmed: dict[str, Any] | None = None  # What `keras-mt trim` did, to it or to what it is from.
    model_config: dict[str, Any] | None = None  # Its `get_config`, once it is built.
    # `{"corpora": [...]}`, those of the training splits before those of the validation splits, as
    # of `EncodedPairs`; with adapters also "init", a hash of the weights below them. None for a run
    # that was imported, and before the text is encoded.
    fingerprints: dict[str, Any] | None = None
    # Default options of `Translator.load`, by name: the decoding options of an imported model.
    generation: dict[str, Any] | None = None

    @property
    def directions(self) -> list[tuple[str, str, str]]:
        """Each corpus with the codes of its source and its target."""
        if self.pairs is None:
            return [(data, self.source, self.target) for data in self.data]
        return [(data, *pair.split("-")) for pair, data in self.pairs.items()]

    @property
    def validated(self) -> dict[str, tuple[str, str, str]]:
        """The directions whose validation splits are measured, by pair.

        With `pairs` all of them are, else that of the first corpus, under "".
        """
        if self.pairs is None:
            return {"": self.directions[0]}
        return dict(zip(self.pairs, self.directions, strict=True))

    @property
    def codes(self) -> list[str]:
        """The languages of the pairs, in their order; none without pairs."""
        return list(dict.fromkeys(code for pair in self.pairs or () for code in pair.split("-")))

    @property
    def languages(self) -> dict[str, str | None]:
        """The languages of a multilingual model's texts, by option."""
        names = (field.name for field in dataclasses.fields(LanguageOptions))
        return {name: getattr(self.options, name) for name in names}

    @property
    def decays(self) -> bool:
        """True if the learning rate falls to 0 at the last step, where the run ends for good."""
        return self.fitted or self.options.minutes is not None

    @classmethod
    def from_json(cls, text: str) -> "RunConfig":
        """Reads a config.json; ValueError says what is wrong."""
        values = {n: value for n, value in dict(json.loads(text)).items() if value is not None}
        if values.get("schema") != SCHEMA:
            raise InputError(
                f"its schema is {values.get('schema')!r}, of keras_mt {values.get('keras_mt')}; "
                f"keras_mt {__version__} reads schema {SCHEMA}: use the version that wrote it"
            )
        fields = {name: values[name] for name in _TYPES if name in values}
        for name, value in fields.items():
            if not isinstance(value, _TYPES[name]):
                raise InputError(f"its {name} cannot be {value!r}")
        # It refuses what is no option.
        from_keywords(TranslationOptions, "its generation", fields.get("generation", {}))
        others = {*_TYPES, "schema", "keras_mt", "keras"}
        options = {name: value for name, value in values.items() if name not in others}
        return cls(**fields, options=from_keywords(TrainingOptions, "keras_mt", options))

    def to_json(self) -> str:
        """The text of config.json."""
        fields = {name: getattr(self, name) for name in _TYPES}
        options = {n: value for n, value in vars(self.options).items() if n not in _NOT_KEPT}
        versions = {"keras_mt": __version__, "keras": importlib.metadata.version("keras")}
        return json.dumps({"schema": SCHEMA, **fields, **options, **versions}, indent=2) + "\n"

    def changes(self, now: "RunConfig") -> list[str]:
        """The differences of another configuration; corpora are compared by their fingerprints."""
        pairs = {name: (getattr(self, name), getattr(now, name)) for name in ("source", "target")}
        pairs["pairs"] = list(self.pairs or ()), list(now.pairs or ())
        for field in dataclasses.fields(TrainingOptions):
            timed = field.name == "minutes" and self.options.minutes is not None
            if timed and self.total_steps is None:
                continue  # The minutes have set no last step yet.
            if field.name not in MAY_CHANGE:
                pairs[field.name] = tuple(getattr(x.options, field.name) for x in (self, now))
        changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        return [f"{name} was {old!r}, now {new!r}" for name, (old, new) in changed.items()]


# What config.json holds of a run beside its options.
_TYPES = {
    field.name: typing.get_origin(field_type(field)) or field_type(field)
    for field in dataclasses.fields(RunConfig)
    if field.name != "options"
}


class RunFolder:
    """The folder of a run; this class, and `files.is_run`, know the names of its files."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.model_file = self.path / "model.keras"
        self.log_file = self.path / "log.csv"
        self.plot_file = self.path / "training.png"
        self.checkpoints = self.path / "checkpoints"
        self.best_weights = self.checkpoints / "best.weights.h5"
        self.tensorboard = self.path / "tensorboard"
        self._config_file = self.path / "config.json"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer: a file, or a folder of several."""
        folder = self.path / "tokenizer"
        return folder if folder.is_dir() else self.path / "tokenizer.model"

    def check_finished(self) -> None:
        """Raises FileNotFoundError if a file is missing, InputError if the folder is an export."""
        if not self.model_file.exists() and find_export(self.path):
            raise InputError(
                f"{self.path} is an export, whose options are fixed: give the run folder."
            )
        for path in (self.model_file, self.tokenizer_path):
            if not path.exists():
                raise FileNotFoundError(
                    f"{self.path} is not a finished run folder: it has no {path.name}. "
                    "`keras-mt train --output RUN` makes one."
                )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Makes the folder, and refuses others that would train into it within a `with` block."""
        with owned(self.path / ".lock", f"{self} is being trained into"):
            files = self.model_file, self.best_weights, self._config_file, self.tokenizer_path
            remove_leftovers(*files, self.log_file, self.plot_file)
            yield

    def check_usable(self) -> None:
        """Refuses a folder with something else, or a model to be overwritten."""
        is_trained = self.model_file.exists() or any(self.checkpoints.glob("*.index"))
        if self.config is None:
            if any(self.path.glob("[!.]*")):
                raise InputError(
                    f"{self.path} is not empty and holds no run: give another output folder."
                )
        elif is_trained and self.last_checkpoint is None:
            raise InputError(
                f"{self} holds a trained model or its checkpoints, which training would overwrite. "
                f"To resume, put back {self.checkpoints.name}/checkpoint, which names the last. "
                f"To fine-tune the model, give `--init {self}` and another output folder."
            )

    @property
    def config(self) -> RunConfig | None:
        """The configuration; None if there is none, ValueError if it cannot be read."""
        if not self._config_file.is_file():
            return None
        try:
            return RunConfig.from_json(self._config_file.read_text(encoding="utf-8"))
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{self._config_file} cannot be read: {str(error).rstrip('.')}."
            ) from None

    def write_config(self, config: RunConfig) -> None:
        with atomic_write(self._config_file) as temporary:
            temporary.write_text(config.to_json(), encoding="utf-8")

    @property
    def last_checkpoint(self) -> str | None:
        """The name of the last checkpoint; None if there is none."""
        import tensorflow as tf

        try:
            return tf.train.latest_checkpoint(str(self.checkpoints))
        except ValueError:  # The file that names it is damaged.
            return None

    @contextlib.contextmanager
    def open_model(self) -> Iterator[tuple[zipfile.ZipFile, dict[str, Any]]]:
        """The archive that model.keras is, and its config.json; InputError if it is damaged."""
        try:
            with zipfile.ZipFile(self.model_file) as archive:
                try:
                    saved = json.loads(archive.read("config.json"))
                except RuntimeError as error:  # Of an encrypted archive.
                    raise InputError(str(error)) from error
                yield archive, saved
        except DiskError:
            raise
        except _UNREADABLE as error:
            raise InputError(f"{self.model_file} cannot be read: {error}.") from error

    def load_model(
        self,
        architecture: str | type | Sequence[str | type] | None = None,
        dtype: str | None = None,
    ) -> "keras.Model":
        """The Keras model, built, with its weights, and not compiled.

        `architecture` is its class, or `MODULE:CLASS`, if it is not one of keras_mt's own, or
        several: a run's files never cause an import. `dtype` is ignored for a model without one.
        """
        import keras

        from keras_mt.models import ARCHITECTURES, ensure_built, find_architecture

        self.check_finished()
        given = architecture if isinstance(architecture, (list, tuple)) else [architecture]
        classes = [*ARCHITECTURES.values(), *map(find_architecture, filter(None, given))]
        classes = {keras.saving.get_registered_name(each): each for each in classes}
        with self.open_model() as (archive, saved):
            if archive.getinfo(_WEIGHTS).file_size > self.model_file.stat().st_size:
                raise InputError("its weights are compressed")
            name = saved["registered_name"] or saved["class_name"]
            if name not in classes:
                raise InputError(
                    f"its class {name!r} is none of {', '.join(classes)}. Give the class, "
                    "MODULE:CLASS, as `architecture`"
                )
            saved["compile_config"] = None
            if dtype is not None and "dtype" in saved["config"]:
                saved["config"]["dtype"] = dtype
            model = keras.saving.deserialize_keras_object(saved, custom_objects=classes)
            model = ensure_built(model)
            # keras.saving.load_model would hold the whole file in memory, and converting the dtype
            # afterwards would hold two models.
            where = tempfile.gettempdir()
            with disk_errors(where), tempfile.TemporaryDirectory() as folder:
                model.load_weights(archive.extract(_WEIGHTS, folder))
        return model

    def save_model(
        self, model: "keras.Model", weights: Sequence["np.ndarray"], dtype: str = "float32"
    ) -> None:
        """Atomically writes a copy of the model with these weights and dtype, not compiled."""
        from keras_mt.models.seq2seq import clone

        copy = clone(model, **({"dtype": dtype} if "dtype" in model.get_config() else {}))
        copy.set_weights(weights)
        with atomic_write(self.model_file) as temporary:
            copy.save(temporary)

    def load_tokenizer(self, cls: "type[BaseTokenizer] | None" = None) -> "BaseTokenizer":
        """The tokenizer; `cls` is its class, if it is not one of keras_mt's own."""
        from keras_mt.text import PretrainedTokenizer, Tokenizer

        is_pretrained = (self.tokenizer_path / "tokenizer.json").is_file()
        cls = cls or (PretrainedTokenizer if is_pretrained else Tokenizer)
        if self.tokenizer_path.is_dir() == issubclass(cls, Tokenizer):
            raise InputError(
                f"{self.tokenizer_path} is no {cls.__name__}: load it with its own class, and pass "
                "it to `Translator(model, tokenizer)`."
            )
        return cls.load(self.tokenizer_path)

    def tokenizer_facts(self) -> dict[str, Any]:
        """The tokenizer's kind, size and languages, read without TensorFlow."""
        if self.tokenizer_path.is_file():
            from keras_mt.text.vocabulary import SentencePieceVocabulary

            found = SentencePieceVocabulary.load(self.tokenizer_path)
            kind, size, languages = found.description, found.vocab_size, found.languages
        else:
            settings = json.loads((self.tokenizer_path / "tokenizer.json").read_text("utf-8"))
            kind, size = settings["description"], len(settings["pieces"][-1])
            languages = settings["languages"] or ()
        return {"kind": kind, "vocab_size": size, "languages": [*languages]}

    def save_tokenizer(self, tokenizer: "BaseTokenizer") -> None:
        from keras_mt.text import Tokenizer

        if isinstance(tokenizer, Tokenizer):
            tokenizer.save(self.path / "tokenizer.model")
            return
        with new_folder(self.path / "tokenizer") as folder:
            tokenizer.save(folder)

    def read_log(self) -> list[dict[str, str]]:
        """The rows of the log, dicts of strings; none if there is no log."""
        return read_log(self.log_file)

    def begin_log(
        self, rows: Iterable[dict[str, Any]] = (), columns: Sequence[str] = LOG_COLUMNS
    ) -> None:
        """Starts a new log with these rows, in place of the old one."""
        with (
            atomic_write(self.log_file) as new,
            open(new, "w", encoding="utf-8", newline="") as log,
        ):
            writer = csv.DictWriter(log, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)

    def append_log(self, row: dict[str, Any], columns: Sequence[str] = LOG_COLUMNS) -> None:
        """Adds a row to the log, which was begun with these columns."""
        with open(self.log_file, "a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, columns).writerow(row)

    def card(self) -> dict[str, Any]:
        """The known fields of the model card: languages, data, license, best BLEU."""
        if (config := self.config) is None:
            return {}
        names = [n if n.startswith("tfds:") else Path(n).resolve().name for n in config.data]
        names = list(dict.fromkeys(names))
        card = {name: getattr(config, name) for name in ("source", "target", "license", "trimmed")}
        card["data"] = names[0] if len(names) == 1 else names
        card["pairs"] = config.pairs and list(config.pairs)
        measured = [row for row in self.read_log() if row["val_bleu"]]
        if config.options.weights == "best" and measured:
            best = max(measured, key=lambda row: float(row["val_bleu"]))
            card["validation"] = {n: float(best[f"val_{n}"]) for n in ("bleu", "chrf")}
        return {name: value for name, value in card.items() if value is not None}


def read_log(path: Path) -> list[dict[str, str]]:
    """The complete rows of a `log.csv`, as dicts of strings; none if there is no file."""
    if not path.exists():
        return []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if None not in row.values()]
        for row in rows:
            int(row["step"])
            for name in set(row) - {"event"}:
                float(row[name] or 0)
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        raise InputError(
            f"{path} cannot be read: {error!r}. Put it back, or remove it to go on without it."
        ) from None
    return [dict.fromkeys(LOG_COLUMNS, "") | row for row in rows]
