"""The command `keras-mt`: a thin layer over training, evaluation, export and translation."""

import codecs
import contextlib
import dataclasses
import json
import math
import os
import select
import stat
import sys
import tempfile
import time

import click

from keras_mt.errors import InputError
from keras_mt.files import find_saved_model, is_run
from keras_mt.options import (
    QUANTIZATIONS,
    LanguageOptions,
    TrainingOptions,
    TranslationOptions,
    kind,
)
from keras_mt.version import __version__

# Lines translated together, so that lines of similar length share a batch.
_BLOCK_LINES = 2048
_CHUNK = 1 << 16  # Bytes read at once.
# The most sentences resampled by default: sacreBLEU holds all resamples, 1 GB at this size.
_MOST_RESAMPLED = 10_000
# How long, in seconds, to wait for the next line of a program that writes line after line.
_GRACE = 0.01


def _mendable():
    """The errors whose message tells the user what to fix."""
    errors = (ValueError, OSError, FloatingPointError, RuntimeError)
    tensorflow = sys.modules.get("tensorflow")
    return errors if tensorflow is None else (*errors, tensorflow.errors.OpError)


@contextlib.contextmanager
def _clear_errors():
    """Turns the errors that the user can fix into a message and exit status 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # click ends without a word.
    except _mendable() as error:
        if os.environ.get("KERAS_MT_DEBUG"):
            raise
        message = str(error)
        if not isinstance(error, _mendable()[:4]):  # One of TensorFlow's.
            message = _cause(message)
        raise click.ClickException(message) from error


def _cause(message):
    """The line of TensorFlow's message that says what happened; the others say where."""
    lines = [line.strip() for line in message.splitlines()]
    where = ("Graph execution error", "Detected at node", 'File "', "Node:", "<stack traces")
    causes = [line for line in lines if line and not line.startswith(where)]
    return [*causes, *lines, message][0]


class _Command(click.Command):
    def invoke(self, context):
        with _clear_errors():
            if context.obj is not None:
                # The imports that the body needs and the help does not: see keras_mt_command.
                context.obj(of_export=self is translate and _is_export(context.params["model"]))
            return super().invoke(context)


class _Group(click.Group):
    command_class = _Command


class _Checked(click.ParamType):
    """The type of an option whose choices are looked up only for a value that is not the default.

    Listing the choices may need a slow import.
    """

    def __init__(self, field):
        self.name, self.field = "text", field

    def convert(self, value, param, ctx):
        choices = self.field.metadata["choices"]
        if value != self.field.default and value not in (names := list(choices())):
            self.fail(f"{value!r} is not one of {', '.join(names)}.", param, ctx)
        return value


class _Setting(click.ParamType):
    """KEY=VALUE: the value is parsed as JSON if it can be, else kept as a string."""

    name = "setting"

    def convert(self, value, param, ctx):
        key, equals, value = value.partition("=")
        if not key or not equals:
            self.fail("it must be KEY=VALUE, such as num_layers=2.", param, ctx)
        with contextlib.suppress(ValueError):
            value = json.loads(value)
        return key, value


def _option(field, name=None):
    """The click option for a field of a dataclass of options; its value is None unless given."""
    metadata, name = field.metadata, name or field.name
    flag = metadata["flag"] or "--" + name.replace("_", "-")
    shown = metadata["shown"] if field.default is None else field.default
    shown = "" if isinstance(shown, bool) else f"  [default: {shown}]"
    settings = {"default": None, "help": metadata["help"] + shown}
    if metadata["metavar"]:
        settings["metavar"] = metadata["metavar"]
    if kind(field) is bool:
        settings["is_flag"] = True
        if field.default is None:
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
    elif kind(field) in (int, float):
        settings["type"] = kind(field)
    elif callable(metadata["choices"]):
        settings["type"] = _Checked(field)
    elif metadata["choices"]:
        settings["type"] = click.Choice(metadata["choices"], case_sensitive=False)
    elif metadata["metavar"] == "KEY=VALUE":
        settings.update(type=_Setting(), multiple=True)
    elif not isinstance(kind(field), type):  # A sequence of integers.
        settings.update(type=int, multiple=True)
    return click.option(flag, name, **settings)


def _options(cls):
    """A decorator that adds a click option for each field of a dataclass."""

    def decorate(function):
        for field in reversed(dataclasses.fields(cls)):
            function = _option(field)(function)
        return function

    return decorate


_source_option = click.option(
    "--source", required=True, help="Language code of the source, such as en."
)
_target_option = click.option(
    "--target", required=True, help="Language code of the target, such as de."
)


def _data_options(function):
    options = [
        click.option(
            "--data",
            required=True,
            help="tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG files, a .tsv file, or "
            "phrasebook (the embedded corpus, pt and en).",
        ),
        _source_option,
        _target_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


_ensemble_option = click.option(
    "--ensemble",
    multiple=True,
    type=click.Path(exists=True),
    metavar="RUN_DIR",
    help="Another run with the same tokenizer, to average probabilities with; may be repeated.",
)
_shortlist_option = click.option(
    "--shortlist",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Compute logits only for the tokens that `keras-mt shortlist` found for the source's: "
    "faster with a large vocabulary.",
)
_architecture_option = click.option(
    "--architecture",
    multiple=True,
    metavar="MODULE:CLASS",
    help="The model's class, if it is your own; may be repeated.",
)


def _search_options(function):
    for option in (_architecture_option, _ensemble_option, _shortlist_option):
        function = option(function)
    return _options(TranslationOptions)(function)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main():
    """Train a translator, measure it, export it, translate with it.

    \b
    keras-mt train --data phrasebook --source pt --target en --output runs/pt_en
    keras-mt evaluate runs/pt_en --data phrasebook --source pt --target en --split test
    keras-mt export runs/pt_en saved_models/pt_en/1
    echo "O livro está em cima da mesa." | keras-mt translate saved_models/pt_en
    """


@main.command()
@click.option(
    "--data",
    required=True,
    multiple=True,
    help="tfds:NAME, a folder of LANG.SPLIT.txt or SPLIT.LANG files, a .tsv file, or phrasebook "
    "(the embedded corpus, pt and en); may be repeated. The first one is used for validation.",
)
@_source_option
@_target_option
@click.option("--output", required=True, type=click.Path(), help="Run folder to write.")
@_options(TrainingOptions)
def train(**options):
    """Train a translator from parallel text.

    Writes a run folder: model.keras, tokenizer.model, config.json, log.csv, training.png,
    checkpoints/. Give the same command again to resume a run that was stopped; give it with more
    --epochs or --steps to continue a run that has finished.

    \b
    keras-mt train --data my_corpus --source en --target de --preset tiny --output runs/en_de
    """
    from keras_mt.training import train

    options = _given(options)
    options["data"] = list(options["data"])
    if "model" in options:
        options["model"] = dict(options["model"])
    try:
        train(**options, report=click.echo)
    except KeyboardInterrupt:
        raise click.ClickException(
            "stopped; give the same command again to resume from the last checkpoint."
        ) from None


_split_option = click.option(
    "--split", default="test", show_default=True, help="Split of the corpus."
)
_references_option = click.option(
    "--references",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A further reference besides the corpus's, one line per sentence; may be repeated.",
)


@main.command()
@click.argument(
    "models", type=click.Path(exists=True), nargs=-1, metavar="[RUN_DIR_OR_SAVED_MODEL]..."
)
@_data_options
@_split_option
@_references_option
@click.option(
    "--hypotheses",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Another system's translations to score, one line per sentence; may be repeated.",
)
@click.option(
    "--paired",
    type=click.Choice(["bootstrap", "randomization"]),
    help="Test whether each system differs from the first: sacreBLEU's paired bootstrap or "
    "approximate randomization.",
)
@click.option(
    "--resamples",
    type=click.IntRange(min=0),
    help="Bootstrap resamples for the 95% confidence intervals; 0 for no intervals.  [default: "
    "1000; 0 above 10,000 sentences]",
)
@click.option(
    "--output",
    type=click.Path(),
    metavar="FOLDER",
    help="Write source.txt, hypothesis.txt and reference.txt (hypothesis.2.txt and so on) there "
    "for other tools; the folder must not exist.",
)
@click.option(
    "--comet",
    metavar="COMMAND",
    help="Run an external metric, such as comet-score from another environment, on each system's "
    "files: `-s SOURCE -t HYPOTHESIS -r REFERENCE` is appended, unless the command contains "
    "{source}, {hypothesis} or {reference}. Its last line of output must hold the score.",
)
@_search_options
@_option(TrainingOptions.__dataclass_fields__["bleu_tokenize"], "tokenize")
def evaluate(
    models,
    data,
    source,
    target,
    split,
    references,
    hypotheses,
    paired,
    resamples,
    output,
    comet,
    tokenize,
    **search,
):
    """Score translations of a corpus split with sacreBLEU's BLEU, chrF and chrF++.

    The last line of the output is a JSON object with bleu, chrf and their signatures; for several
    systems it holds `systems`, a list of such objects. A readable table goes to standard error.

    \b
    keras-mt evaluate runs/en_de --data my_corpus --source en --target de --split test
    keras-mt evaluate runs/a runs/b --data my_corpus --source en --target de --paired bootstrap
    keras-mt evaluate --hypotheses theirs.txt --data my_corpus --source en --target de
    keras-mt evaluate runs/a --data my_corpus --source en --target de --comet venv/bin/comet-score
    """
    import sacrebleu

    from keras_mt.evaluation import Scorer, command_words, table, write_files
    from keras_mt.files import check_new

    names = [*models, *hypotheses]
    if not names:
        raise click.UsageError("Give a run folder, a SavedModel or --hypotheses FILE.")
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise click.UsageError(f"{twice} is given twice.")
    if paired and len(names) < 2:
        raise click.UsageError("--paired needs at least two systems.")
    if search["ensemble"] and len(models) != 1:
        raise click.UsageError("--ensemble goes with exactly one run folder.")
    if output:
        check_new(output)  # Before anything is translated.
    if comet is not None:
        command_words(comet)
    options = _given({"tokenize": tokenize})
    sacrebleu.BLEU(**options)  # Likewise: some tokenizers need extra packages.
    sources, reference = _corpus(data, source, target, split)
    references = [reference, *(_aligned_file(path, len(sources)) for path in references)]
    if resamples is None:
        resamples = 1000 if len(sources) <= _MOST_RESAMPLED else 0
    scorer = Scorer(references, **options, resamples=resamples)
    files = {path: _aligned_file(path, len(sources)) for path in hypotheses}
    systems, texts = [], {}
    for name in names:
        if name in files:
            texts[name], own = files[name], {"split_sentences": None}
        else:
            texts[name], own = _timed_translations(name, search, sources, len(names) > 1)
        found = scorer(texts[name])
        first = {n: found.pop(n) for n in ("bleu", "chrf")} | {"sentences": len(sources)}
        systems.append(first | own | found | {"system": name})
    signatures = scorer.signatures()
    results = {"systems": systems} if len(systems) > 1 else systems[0]
    if paired:
        p_values, signatures = scorer.paired(texts, paired)
        for system in systems:
            own = p_values[system["system"]]
            system.update({f"{name}_p": value for name, value in own.items()})
        results["paired"] = {"test": paired, "against": names[0], "signatures": signatures}
    failure = None
    with tempfile.TemporaryDirectory() as temporary:
        folder = output or os.path.join(temporary, "files")
        if output or comet:
            write_files(folder, sources, list(texts.values()), references)
        if comet:
            try:
                found = [_of_their_own(comet, folder, *each) for each in enumerate(systems, 1)]
            except ValueError as error:  # The translations may have taken hours.
                failure = error
            else:
                results["comet_command"] = comet
                for system, scores in zip(systems, found, strict=True):
                    system.update(scores)
    click.echo(table(systems, signatures), err=True)
    click.echo(_json(results))
    if failure:
        again = f" --hypotheses scores the files in {output} again." if output else ""
        raise InputError(f"{failure}\nThe other scores are above.{again}")


@main.command()
@click.argument("first", type=click.Path(exists=True), metavar="A")
@click.argument("second", type=click.Path(exists=True), metavar="B")
@_data_options
@_split_option
@click.option(
    "--number",
    type=click.IntRange(min=0),
    help="Sentences to show.  [default: 10; 100 with --html]",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write an HTML page, with the words highlighted in which the translations differ.",
)
@_search_options
def compare(first, second, data, source, target, split, number, html, **search):
    """Show where two systems differ: sentences, lengths, rare words, repetition.

    A and B are run folders, SavedModels, or text files with one translation per line, for each
    sentence of the split. The report shows the sentences whose chrF differs most; chrF by reference
    length; how well words that are rare in the corpus's training split are translated; and how
    often translations repeat themselves.

    \b
    keras-mt compare runs/a runs/b --data my_corpus --source en --target de
    keras-mt compare theirs.txt runs/b --data my_corpus --source en --target de --html page.html
    """
    from keras_mt.data import has_split, load_corpus
    from keras_mt.evaluation import Comparison
    from keras_mt.files import atomic_write

    if search["ensemble"]:
        raise click.UsageError(
            "compare takes no --ensemble: write the ensemble's translations to a file, and compare "
            "that."
        )
    sources, references = _corpus(data, source, target, split)
    systems = {
        path: _aligned_file(path, len(sources)) for path in (first, second) if os.path.isfile(path)
    }
    for path in (first, second):
        if path not in systems:
            systems[path], _ = _timed_translations(path, search, sources, one_of_several=True)
    training = None
    if has_split(data, source, target, "train"):
        pairs = load_corpus(data, source, target, "train").as_numpy_iterator()
        training = (pair[1].decode("utf-8") for pair in pairs)
    names = first, second
    comparison = Comparison(
        sources, references, *(systems[path] for path in names), names, training
    )
    if html:
        page = comparison.as_html(100 if number is None else number)
        with atomic_write(html) as temporary:
            temporary.write_text(page, encoding="utf-8")
        click.echo(f"wrote {html}")
        return
    click.echo(comparison.as_text(10 if number is None else number, _colored))


def _colored(word, right):
    return click.style(word, fg="green" if right else "red", underline=True)


def _of_their_own(command, folder, number, system):
    """The scores that a command gives a system's files; a name that is taken is refused."""
    from keras_mt.evaluation import external_scores, file_name

    names = file_name("source", 1), file_name("hypothesis", number), file_name("reference", 1)
    scores = external_scores(command, *(os.path.join(folder, name) for name in names))
    if taken := [name for name in scores if name in system]:
        raise InputError(
            f"The command of --comet calls a score {taken[0]}, as evaluate does: rename it."
        )
    return scores


def _corpus(data, source, target, split):
    """The sources and the references of a corpus, each text on one line."""
    from keras_mt.data import load_corpus

    pairs = list(load_corpus(data, source, target, split).as_numpy_iterator())
    return [[_one_line(pair[side].decode("utf-8")) for pair in pairs] for side in (0, 1)]


def _aligned_file(path, size):
    """The lines of a file, which must have `size` of them; lines may be blank."""
    with open(path, "rb") as file:
        lines = _lines_of(file)
    if len(lines) != size:
        raise InputError(
            f"{path} has {len(lines):,} lines, and the split {size:,} sentences: they must agree."
        )
    return [_one_line(line) for line in lines]


def _lines_of(file):
    """The lines of a binary file, as str; ValueError, which names the line, if one is not UTF-8."""
    text = file.read().removeprefix(codecs.BOM_UTF8)
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    (texts,), errors = _decoded([line.removesuffix(b"\r") for line in lines])
    for number, error in errors.items():
        raise InputError(f"{file.name}:{number + 1} is {error}.")
    return texts


def _timed_translations(path, search, sources, one_of_several=False):
    """A model's best translations, each on one line, and a dict of how they were made."""
    translator, translations = _load_translator(path, search), []
    translator.hypotheses(sources[:1])  # Traces the graph, which is not timed.
    start = time.perf_counter()
    with _progress(len(sources)) as progress:
        for block in _blocks(translator.hypotheses, sources):
            translations += [_one_line(found[0].text) if found else "" for found in block]
            progress.update(len(block))
    seconds = time.perf_counter() - start
    name = f"{path}: " if one_of_several else ""
    for i, translation in enumerate(translations):
        if not translation:
            message = f"{name}sentence {i + 1} has no translation: {sources[i][:80]!r}"
            click.echo(message, err=True)
    return translations, {
        "split_sentences": _splits_sentences(translator),
        "seconds": round(seconds, 2),
        "sentences_per_second": round(len(sources) / seconds, 1),
    }


@main.command("import")
@click.argument("directory", type=click.Path())
@click.argument("run_dir", type=click.Path())
def import_(directory, run_dir):
    """Import a folder of MarianMT (OPUS-MT), M2M-100 or NLLB as a run folder.

    DIRECTORY is a folder as Hugging Face transformers writes it or, where huggingface_hub is
    installed, the name of a model on the hub. No code in it is run. By default the run folder
    translates with the options of generation_config.json. It can be evaluated, exported, and
    fine-tuned (`train --init RUN_DIR`).

    \b
    keras-mt import opus-mt-en-de runs/opus_en_de
    """
    from keras_mt.convert import import_huggingface

    import_huggingface(directory, run_dir)
    click.echo(f"imported {directory} into {run_dir}")


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@_data_options
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Number of target tokens for each source token, the most probable ones, besides itself.",
)
@click.option(
    "--frequent",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Number of the most frequent target tokens, which are always there.",
)
@_options(LanguageOptions)
def shortlist(run_dir, output, data, source, target, size, frequent, **languages):
    """Learn which target tokens each source token may become, from a corpus.

    It is learned by word alignment from the first pairs of the training split (40,000 of 20 tokens
    a side, more of shorter ones), and written to the file OUTPUT. With `--shortlist OUTPUT`,
    `translate`, `evaluate`, `compare` and `export` compute only the logits of these tokens.

    \b
    keras-mt shortlist runs/en_de en_de.shortlist --data my_corpus --source en --target de
    """
    from keras_mt.data import load_corpus
    from keras_mt.files import check_new
    from keras_mt.run_folder import RunFolder
    from keras_mt.translation import Shortlist

    check_new(output)
    os.makedirs(os.path.dirname(output) or ".", exist_ok=True)  # Before the work.
    folder = RunFolder(run_dir)
    folder.check_finished()
    kept = folder.config.options if folder.config else {}
    codes = [code or kept.get(name) for name, code in languages.items()]
    pairs = load_corpus(data, source, target, "train")
    found = Shortlist.learn(pairs, folder.load_tokenizer(), size, frequent, codes)
    found.save(output)
    click.echo(f"wrote {output}")


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@click.option("--last", type=int, default=5, show_default=True, help="Number of checkpoints.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Dtype of the weights that are written; computation is in float32 either way.",
)
@_architecture_option
def average(run_dir, output, last, dtype, architecture):
    """Average the last checkpoints of a run, finished or not, into a new run folder.

    \b
    keras-mt average runs/en_de runs/en_de_averaged --last 10
    """
    from keras_mt.training import average_run

    if len(architecture) > 1:
        raise click.UsageError("Give --architecture once: a run has one model.")
    average_run(run_dir, output, last, dtype, *architecture)
    click.echo(f"averaged {last} checkpoints into {output}")


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("saved_model_dir", type=click.Path())
@_search_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["saved_model", "ctranslate2", "huggingface", "litert", "onnx"]),
    default="saved_model",
    show_default=True,
    help="What to write: a SavedModel, a folder for CTranslate2, a MarianMT for transformers, or "
    "a model from ids to ids for LiteRT (search included) or ONNX (encoder and decoder step).",
)
@click.option(
    "--quantization",
    type=click.Choice(QUANTIZATIONS),
    help="How --format ctranslate2 stores the weights; --format litert takes only int8.  "
    "[default: float32]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Dtype of the weights and of the computation.",
)
@click.option(
    "--freeze",
    is_flag=True,
    help="Write the weights as constants: faster, above all with bfloat16 and small batches, but "
    "takes more memory.",
)
@click.option(
    "--confidence",
    is_flag=True,
    help="Also write a signature `confidence`: translations with measures of confidence.",
)
@click.option(
    "--card",
    type=click.File("rb"),
    metavar="FILE",
    help="JSON object with fields for the model card, such as license.",
)
@click.option(
    "--warmup-texts",
    type=click.File("rb"),
    metavar="FILE",
    help="Sentences, one per line, for the warm-up requests.  [default: the tokenizer's words]",
)
def export(
    run_dir,
    saved_model_dir,
    format_,
    quantization,
    dtype,
    freeze,
    confidence,
    card,
    warmup_texts,
    **search,
):
    """Export a run as a SavedModel: strings in, beam-searched translations out.

    SAVED_MODEL_DIR is a version folder, such as saved_models/en_de/1. With another --format it is
    any folder. It must not exist yet.

    \b
    keras-mt export runs/en_de saved_models/en_de/1
    keras-mt export runs/en_de en_de_ct2 --format ctranslate2 --quantization int8
    keras-mt export runs/en_de en_de_marian --format huggingface
    keras-mt export runs/en_de en_de_litert --format litert --quantization int8 --beam-size 1
    keras-mt export runs/en_de en_de_onnx --format onnx
    """
    if quantization and format_ not in ("ctranslate2", "litert"):
        raise click.UsageError("--quantization goes with --format ctranslate2 or litert.")
    if format_ != "saved_model":
        if freeze or confidence or warmup_texts or card or dtype != "float32":
            raise click.UsageError(
                "--dtype, --freeze, --confidence, --card and --warmup-texts do not go with "
                f"--format {format_}: leave them out."
            )
        kept = ("ensemble", "architecture", "shortlist", "source_language", "target_language")
        if format_ in ("ctranslate2", "onnx") and (given := _flags(search, kept)):
            raise click.UsageError(
                f"--format {format_} has no search inside: leave {given} out, and give them to "
                "what searches."
            )
        from keras_mt import convert
        from keras_mt.files import check_new

        check_new(saved_model_dir)  # Before anything is loaded.
        translator = _load_run(run_dir, dtype=None, **search)
        options = {"quantization": quantization} if quantization else {}
        getattr(convert, f"to_{format_}")(translator, saved_model_dir, **options)
        click.echo(f"exported {saved_model_dir}")
        return
    from keras_mt.serving.export import check_absent

    _check_standard_input(card, warmup_texts)
    check_absent(saved_model_dir)  # Before anything is loaded.
    card = _json_object(card) if card else None
    warmup_texts = _lines_of(warmup_texts) if warmup_texts else None
    translator = _load_run(run_dir, dtype=None, **search)
    translator.export(
        saved_model_dir,
        dtype=dtype,
        freeze=freeze,
        confidence=confidence,
        card=card,
        warmup_texts=warmup_texts,
    )
    click.echo(f"exported {saved_model_dir}")


@main.command()
@click.argument("model", type=click.Path(exists=True), metavar="RUN_DIR_OR_SAVED_MODEL")
@click.argument("text", type=click.File("rb"), default="-", metavar="[FILE]")
@_search_options
@click.option(
    "--prefixes",
    type=click.File("rb"),
    metavar="FILE",
    help="What each translation must begin with: one line for each line of the input.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON object per line, with scores, confidence and doubts.",
)
@click.option(
    "--token-scores", is_flag=True, help="With --json: also the log-probability of each token."
)
@click.option(
    "--confidence/--no-confidence",
    default=True,
    help="Whether --json gives confidence and doubts; each translation is then scored once more.  "
    "[default: yes]",
)
@click.option(
    "--retry-loops",
    is_flag=True,
    help="Where a translation loops, translate its line again with --no-repeat-ngram-size 3.",
)
def translate(model, text, prefixes, as_json, token_scores, confidence, retry_loops, **search):
    """Translate FILE, or standard input, line by line.

    Writes exactly one line for each line, in order. A line that is not UTF-8 gives an empty line
    and a message on standard error. With --n-best above 1 the translations of a line are separated
    by tabs.

    With --json each translation has its score; the mean log-probability of its tokens, and the
    least probable token; and doubts, a list that may hold "loop" (a sequence of tokens repeats over
    and over) and "length" (source and translation differ too much in length). A SavedModel gives
    confidence and doubts only if it was exported with --confidence.

    \b
    keras-mt translate runs/en_de < in.txt > out.txt
    echo "A man sleeps." | keras-mt translate runs/en_de --beam-size 8 --n-best 3 --json
    """
    if token_scores and not as_json:
        raise click.UsageError("--token-scores needs --json.")
    files = [text] if prefixes is None else [text, prefixes]
    _check_standard_input(*files)
    translator = _load_translator(model, search)
    if retry_loops and not hasattr(translator, "with_options"):
        raise InputError(
            f"{model} was exported with fixed options: --retry-loops needs the run folder."
        )
    again = _without_loops(translator) if retry_loops else None
    with _progress(None) as progress:
        for number, *columns in _line_blocks(*files):
            texts, errors = _decoded(*columns)
            options = {"token_scores": True} if token_scores else {}
            if retry_loops or (as_json and confidence and translator.gives_confidence):
                options["confidence"] = True
            results = translator.hypotheses(*texts, **options)
            retried = _retry(again, texts, results, options) if retry_loops else {}
            for i, found in enumerate(retried.get(i, found) for i, found in enumerate(results)):
                error = errors.get(i)
                if error is None and found is None:
                    error = "it has no translation: its prefix is longer than the model's limit, "
                    error += "or has several sentences, or the model's probabilities are not finite"
                elif error is None and texts[0][i].strip() and found[0][:2] == ("", 0):
                    error = "nothing in it to translate"  # The tokenizer dropped all of it.
                if error:
                    click.echo(f"line {number + i} refused: {error}", err=True)
                shown = [] if error else found
                more = {"error": error} if error else {"retried": True} if i in retried else {}
                _write(_as_json(columns[0][i], shown, more) if as_json else _as_text(shown))
            sys.stdout.buffer.flush()
            progress.update(len(columns[0]))


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"))
@_ensemble_option
@_architecture_option
@_options(LanguageOptions)
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per line, with each token."
)
def score(run_dir, source, target, as_json, **search):
    """Score given translations: how probable they are under the model.

    For each line of SOURCE and TARGET, writes the log-probability of the target and the perplexity
    of its tokens, separated by a tab; at the end, on standard error, those of all lines together. A
    line that is refused gives an empty line and a message.

    \b
    keras-mt score runs/en_de in.txt reference.txt > scores.tsv
    """
    _check_standard_input(source, target)
    translator = _ready(_load_run(run_dir, **search))
    total = tokens = 0
    for number, *columns in _line_blocks(source, target):
        texts, errors = _decoded(*columns)
        for i, found in enumerate(translator.score(*texts)):
            error = errors.get(i)
            if error is None and found is None:
                error = "longer than the model's limit"
            elif error is None and not math.isfinite(found.log_prob):
                error = "the model's probabilities are not finite"
            if error:
                click.echo(f"line {number + i} refused: {error}", err=True)
                _write(_json({"error": error}) if as_json else "")
                continue
            total, tokens = total + found.log_prob, tokens + len(found.tokens)
            if as_json:
                row = {"log_prob": found.log_prob, "perplexity": found.perplexity}
                _write(_json({**row, "tokens": found.tokens}))
            else:
                _write(f"{found.log_prob:.4f}\t{found.perplexity:.4f}")
    if tokens:
        perplexity = math.exp(-total / tokens)
        click.echo(f"log-probability {total:.2f}, perplexity {perplexity:.4f}", err=True)


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"), required=False)
@_ensemble_option
@_architecture_option
@_options(LanguageOptions)
def align(run_dir, source, target, **search):
    """Show which source tokens each target token attends to.

    For each line of SOURCE, writes a JSON object with the pieces of both sides and `attention`: one
    row per target piece, which sums to 1 over the source pieces. Without TARGET, the model's own
    translation is aligned. A line that is refused gives an object with the error, and a message.

    \b
    keras-mt align runs/en_de in.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt > alignments.jsonl
    """
    files = [file for file in (source, target) if file is not None]
    _check_standard_input(*files)
    translator = _ready(_load_run(run_dir, **search))
    for number, *columns in _line_blocks(*files):
        texts, errors = _decoded(*columns)
        for i, pair in enumerate(zip(*texts, strict=True)):
            error = errors.get(i)
            if error is None:
                try:
                    pieces, target_pieces, attention = translator.align(*pair)
                except ValueError as refusal:
                    error = str(refusal)
            if error:
                click.echo(f"line {number + i} refused: {error}", err=True)
                _write(_json({"error": error}))
                continue
            row = {"source": pieces, "target": target_pieces}
            rows = [[round(float(a), 4) for a in weights] for weights in attention]
            _write(_json({**row, "attention": rows}))


def _check_standard_input(*files):
    """Refuses one stream given twice: each reader would get only a part of it."""
    streams = []
    for file in files:
        stream = None if file is None else _stream(file)
        if stream is not None and stream in streams:
            raise click.UsageError(f"{_name(file)} is read once: give it for one argument only.")
        streams.append(stream)


def _name(file):
    return str(getattr(file, "name", "standard input"))


def _stream(file):
    """An identity that two files share if reading one consumes the other."""
    try:
        number = file.fileno()
    except OSError:
        return id(file)
    status = os.fstat(number)
    # A regular file that is opened twice has two positions; a pipe or a terminal has only one.
    return number if stat.S_ISREG(status.st_mode) else (status.st_dev, status.st_ino)


class _Lines:
    """The lines of a binary file as they arrive, without line ends; split at newlines only."""

    def __init__(self, file):
        self.name = _name(file)
        self._file = file
        self._lines = []
        self._rest = b""  # The start of a line whose end has not arrived.
        self._ended = False

    def arrived(self, most):
        """The lines that have arrived, at most `most`; at least one unless the file has ended."""
        while len(self._lines) < most and not self._ended:
            if self._lines and not self._is_ready():
                break
            self._read()
        return self._take(most)

    def next(self, number):
        """The next `number` lines; fewer at the end of the file."""
        while len(self._lines) < number and not self._ended:
            self._read()
        return self._take(number)

    def _read(self):
        chunk = self._file.read1(_CHUNK)
        self._ended = not chunk
        *lines, rest = (self._rest + chunk).split(b"\n")
        if self._ended and rest:
            lines, rest = [*lines, rest], b""
        self._lines += lines
        self._rest = rest

    def _take(self, number):
        taken, self._lines = self._lines[:number], self._lines[number:]
        return taken

    def _is_ready(self):
        try:
            return bool(select.select([self._file], [], [], _GRACE)[0])
        except (OSError, ValueError):  # A file in memory.
            return True


def _line_blocks(*files):
    """Reads parallel files in blocks: yields the first line's number, then each file's lines.

    A block holds the lines that have arrived, so that a program that writes one line and waits for
    the answer gets it.

    Raises:
        ValueError: If a file ends before the others.
    """
    first, *others = map(_Lines, files)
    number = 1
    while True:
        columns = [first.arrived(_BLOCK_LINES)]
        size = len(columns[0])
        columns += [other.next(size or 1) for other in others]
        lengths = [len(lines) for lines in columns]
        if min(lengths) != max(lengths):
            names = " and ".join(lines.name for lines in (first, *others))
            raise InputError(
                f"{names} must have the same number of lines: one ends after "
                f"{number + min(lengths) - 1}."
            )
        if not size:
            return
        yield number, *columns
        number += size


def _decoded(*columns):
    """Columns of str, and errors by index; a line with an error is empty in all columns."""
    errors = {}
    for lines in columns:
        for i, line in enumerate(lines):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                errors[i] = f"not UTF-8 at byte {error.start + 1}"
    return [
        ["" if i in errors else line.decode("utf-8") for i, line in enumerate(lines)]
        for lines in columns
    ], errors


def _write(line):
    sys.stdout.buffer.write(line.encode("utf-8") + b"\n")


def _as_text(found):
    return "\t".join(_one_line(hypothesis.text) for hypothesis in found)


def _as_json(line, found, more):
    result = {"source": line.decode("utf-8", "replace"), "translations": list(map(_fields, found))}
    return _json({**result, **more})


def _fields(hypothesis):
    fields = {"text": hypothesis.text, "score": round(hypothesis.score, 6)}
    if len(hypothesis) > 3:  # With a confidence.
        fields["mean_log_prob"] = round(hypothesis.mean_log_prob, 6)
        fields["worst_token"] = hypothesis.worst_token
        if hypothesis.worst_token:
            piece, log_prob = hypothesis.worst_token
            fields["worst_token"] = piece, round(log_prob, 6)
        fields["doubts"] = hypothesis.doubts
    return fields | ({"tokens": hypothesis.tokens} if hypothesis.tokens else {})


def _without_loops(translator):
    """The translator, but never repeating a sequence of three tokens."""
    size = translator.options.no_repeat_ngram_size or 3
    return translator.with_options(no_repeat_ngram_size=min(size, 3))


def _retry(again, texts, results, options):
    """New translations of the texts whose translation loops, by index."""
    chosen = [i for i, found in enumerate(results) if found and "loop" in found[0].doubts]
    if not chosen:
        return {}
    better = again.hypotheses(*([column[i] for i in chosen] for column in texts), **options)
    return {i: new for i, new in zip(chosen, better, strict=True) if new}


def _json(value):
    """JSON; a number that is not finite becomes null."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value):
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_line(text):
    # A model may generate any byte; in the output these would break lines and columns.
    return text.translate({ord(mark): " " for mark in "\n\r\t"})


@main.command()
@click.argument("saved_model", type=click.Path(exists=True))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=7860, show_default=True, help="Port to listen on.")
def demo(saved_model, host, port):
    """Serve a web page to type a text into: it shows translations, scores and alignments.

    \b
    keras-mt demo saved_models/en_de
    """
    from keras_mt.serving.demo import page

    page(saved_model).launch(server_name=host, server_port=port)


def _load_run(path, ensemble=(), architecture=(), dtype="float32", shortlist=None, **search):
    """A translator from a run folder, with the command's options."""
    from keras_mt.translation import Shortlist, Translator

    if shortlist:
        search["shortlist"] = Shortlist.load(shortlist)
    return Translator.load([path, *ensemble], architecture, dtype, **_given(search))


def _load_translator(path, search):
    """A translator from a run folder or an export, with the command's options."""
    # Batches run side by side, one per core, so one thread each is best; also for a single line,
    # whose matrix products are small. The environment variable overrides this.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    if not _is_export(path):
        if not is_run(path):
            raise FileNotFoundError(f"{path} is neither a run folder nor a SavedModel.")
        return _ready(_load_run(path, **search))
    from keras_mt.serving import ExportedTranslator

    languages = {name: search[name] for name in ("source_language", "target_language")}
    if fixed := _flags(search, languages):
        raise InputError(
            f"{find_saved_model(path)} was exported with fixed options: give {fixed} to "
            "`keras-mt export`, or use the run folder."
        )
    return _ready(ExportedTranslator(path, **languages))


def _is_export(path):
    return not is_run(path) and find_saved_model(path) is not None


def _ready(translator):
    """The translator; raises ValueError if it still needs a language."""
    translator.hypotheses([])
    return translator


def _splits_sentences(translator):
    """Whether a translator, or an export according to its card, splits lines into sentences."""
    if hasattr(translator, "split_sentences"):
        return translator.split_sentences
    return translator.card.get("options", {}).get("split_sentences", False)


def _json_object(file):
    try:
        value = json.load(file)
    except ValueError as error:
        raise InputError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f'{file.name} must hold a JSON object, such as {{"license": "MIT"}}.')
    return value


def _given(options):
    return {name: value for name, value in options.items() if value not in (None, ())}


def _flags(options, kept):
    """The flags of the options that are given, but for those that are kept, as a message says."""
    return ", ".join(f"--{n.replace('_', '-')}" for n in _given(options) if n not in kept)


def _blocks(function, items):
    for i in range(0, len(items), _BLOCK_LINES):
        yield function(items[i : i + _BLOCK_LINES])


def _progress(total):
    from tqdm import tqdm

    return tqdm(total=total, unit=" lines", file=sys.stderr, disable=not sys.stderr.isatty())
