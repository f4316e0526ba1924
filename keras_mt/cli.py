"""The command `keras-mt`: one thin door to training, evaluation, export and translation."""

import contextlib
import itertools
import json
import math
import os
import sys
from pathlib import Path

import click
import sacrebleu
import tensorflow as tf

from keras_mt.version import __version__

# Lines translated together, so that those of like length share a batch.
_BLOCK_LINES = 2048

_TOKENIZERS = click.Choice(list(sacrebleu.BLEU.TOKENIZERS))


@contextlib.contextmanager
def _clear_errors():
    """Turns the errors that name what the user can mend into a message and exit status 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # click ends without a word.
    except (ValueError, OSError, FloatingPointError, RuntimeError, tf.errors.OpError) as error:
        if os.environ.get("KERAS_MT_DEBUG"):
            raise
        message = str(error)
        if isinstance(error, tf.errors.OpError):
            message = message.partition("\n")[0]  # Then comes where in the graph.
        raise click.ClickException(message) from error


class _Command(click.Command):
    def invoke(self, context):
        with _clear_errors():
            return super().invoke(context)


class _Group(click.Group):
    command_class = _Command


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
    help="Another run with the same tokenizer, to average with; may be given again.",
)


def _search_options(function):
    options = [
        click.option("--beam-size", type=int, help="Live hypotheses; 1 is greedy.  [default: 4]"),
        click.option("--n-best", type=int, help="Translations of each sentence.  [default: 1]"),
        click.option(
            "--length-penalty",
            type=float,
            help="Scores are log-probability / length ** length_penalty.  [default: 1]",
        ),
        click.option("--min-length", type=int, help="Fewest tokens, with the end."),
        click.option(
            "--max-length",
            type=int,
            help="Most tokens, with the end.  [default: twice the source's plus 10]",
        ),
        click.option(
            "--split-sentences",
            is_flag=True,
            default=None,
            help="Translate each sentence and each line by itself, and join them.",
        ),
        click.option(
            "--repetition-penalty",
            type=float,
            help="Factor on the log-probability of tokens already there.  [default: 1]",
        ),
        click.option(
            "--no-repeat-ngram-size", type=int, help="Never the same so many tokens in a row twice."
        ),
        click.option("--temperature", type=float, help="Sample, at this temperature."),
        click.option("--top-k", type=int, help="Sample from the so many most probable tokens."),
        click.option("--top-p", type=float, help="Sample from the most probable so much."),
        click.option("--seed", type=int, help="Seed of the samples.  [default: 0]"),
        _ensemble_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


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
    "(the embedded corpus, pt and en); may be given again. The first is validated on.",
)
@click.option(
    "--weight",
    "weights",
    type=int,
    multiple=True,
    help="How often an epoch sees each --data, in their order.  [default: once]",
)
@_source_option
@_target_option
@click.option("--output", required=True, type=click.Path(), help="Run folder to write.")
@click.option(
    "--preset",
    default="tiny",
    show_default=True,
    help="tiny (4 layers, 128 wide: small corpora), base (6, 512) or big (6, 1024).",
)
@click.option("--init", type=click.Path(), help="Run folder to begin from: fine-tuning.")
@click.option("--epochs", type=int, help="Passes over the corpus.  [default: 20]")
@click.option("--steps", type=int, help="Batches, instead of --epochs.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--vocab-size", type=int, default=8000, show_default=True, help="At most.")
@click.option(
    "--max-length",
    type=int,
    default=256,
    show_default=True,
    help="Longest sentence in tokens; longer pairs are left out and counted.",
)
@click.option("--max-ratio", type=float, help="Leave out pairs of more unlike lengths.")
@click.option("--deduplicate", is_flag=True, help="Leave out pairs that were there before.")
@click.option(
    "--subword-sampling",
    type=float,
    help="Draw other segmentations each epoch: 1 as the tokenizer's model says, 0 evenly.",
)
@click.option("--batch-tokens", type=int, help="Tokens a batch on each side.  [default: preset's]")
@click.option(
    "--accumulate", type=int, default=1, show_default=True, help="Batches that make one update."
)
@click.option("--dropout", type=float, help="Dropout rate.  [default: preset's]")
@click.option("--label-smoothing", type=float, help="[default: preset's]")
@click.option(
    "--rdrop",
    type=float,
    default=0.0,
    help="Weight of the R-Drop loss, such as 5: two forward passes that shall agree.",
)
@click.option("--warmup-steps", type=int, help="Updates of rising rate.  [default: preset's]")
@click.option("--learning-rate", type=float, help="Rate after the warm-up.  [default: the paper's]")
@click.option("--clip-norm", type=float, help="Greatest norm of all gradients together.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "mixed_bfloat16", "mixed_float16"]),
    default="float32",
    show_default=True,
    help="Of the computation; weights are kept in float32.",
)
@click.option("--checkpoint-steps", type=int, default=500, show_default=True)
@click.option("--keep", type=int, default=5, show_default=True, help="Last checkpoints to keep.")
@click.option(
    "--average",
    type=int,
    default=1,
    show_default=True,
    help="Average the weights of so many last checkpoints into model.keras.",
)
@click.option(
    "--bleu-epochs",
    type=int,
    default=0,
    help="Measure validation BLEU and chrF every so many epochs.",
)
@click.option(
    "--bleu-tokenize",
    type=_TOKENIZERS,
    default="13a",
    show_default=True,
    help="sacreBLEU's tokenizer; none for text that is tokenized already.",
)
@click.option(
    "--monitor",
    type=click.Choice(["val_loss", "val_bleu"]),
    default="val_loss",
    show_default=True,
    help="What the next two go by.",
)
@click.option("--keep-best", is_flag=True, help="The best weights into model.keras, not the last.")
@click.option("--early-stopping", type=int, help="Stop after so many measurements no better.")
@click.option("--tensorboard", is_flag=True, help="Write tensorboard/ into the run folder too.")
def train(**options):
    """Train a translator from parallel text.

    Writes a run folder: model.keras, tokenizer.model, config.json, log.csv, training.png,
    checkpoints/. A run
    that was stopped goes on when the same command is given again; with more --epochs or --steps,
    so does one that had ended.

    \b
    keras-mt train --data my_corpus --source en --target de --preset tiny --output runs/en_de
    """
    from keras_mt.training import train

    options["data"], options["weights"] = list(options["data"]), list(options["weights"]) or None
    try:
        train(**options, report=click.echo)
    except KeyboardInterrupt:
        raise click.ClickException(
            "stopped; give the same command again to go on from the last checkpoint."
        ) from None


@main.command()
@click.argument("model", type=click.Path(exists=True), metavar="RUN_DIR_OR_SAVED_MODEL")
@_data_options
@click.option("--split", default="test", show_default=True, help="Split of the corpus.")
@_search_options
@click.option(
    "--tokenize",
    type=_TOKENIZERS,
    default="13a",
    show_default=True,
    help="sacreBLEU's tokenizer; none for text that is tokenized already.",
)
def evaluate(model, data, source, target, split, tokenize, **search):
    """Score translations of a split with sacreBLEU's BLEU and chrF.

    The last line of the output is a JSON object with bleu, chrf and their signatures.

    \b
    keras-mt evaluate runs/en_de --data my_corpus --source en --target de --split test
    """
    from keras_mt.data import load_corpus

    # First: some tokenizers need packages of their own.
    bleu, chrf = sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()
    pairs = list(load_corpus(data, source, target, split).as_numpy_iterator())
    sources, references = ([pair[side].decode("utf-8") for pair in pairs] for side in (0, 1))
    translations = []
    with _progress(len(sources)) as progress:
        for block in _blocks(_load_translator(model, search).hypotheses, sources):
            translations += [found[0].text if found else "" for found in block]
            progress.update(len(block))
    for i, translation in enumerate(translations):
        if not translation:
            click.echo(f"sentence {i + 1} has no translation: {sources[i][:80]!r}", err=True)
    scores = {
        "bleu": round(bleu.corpus_score(translations, [references]).score, 2),
        "chrf": round(chrf.corpus_score(translations, [references]).score, 2),
        "sentences": len(sources),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
    click.echo(json.dumps(scores))


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("output", type=click.Path())
@click.option("--last", type=int, default=5, show_default=True, help="Number of checkpoints.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Of the weights that are written; computation is in float32 with either.",
)
def average(run_dir, output, last, dtype):
    """Average the last checkpoints of a run, ended or not, into a new run folder.

    \b
    keras-mt average runs/en_de runs/en_de_averaged --last 10
    """
    from keras_mt.training import average_run

    average_run(run_dir, output, last, dtype)
    click.echo(f"averaged {last} checkpoints into {output}")


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("saved_model_dir", type=click.Path())
@_search_options
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Of the weights and of the computation.",
)
@click.option(
    "--freeze",
    is_flag=True,
    help="Weights as constants: faster, above all with bfloat16 and small batches; more memory.",
)
@click.option(
    "--card",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="JSON object with fields for the model's card, such as license.",
)
@click.option(
    "--warmup-texts",
    type=click.File("r", encoding="utf-8"),
    metavar="FILE",
    help="Sentences, a line each, for the warm-up requests.  [default: the tokenizer's words]",
)
def export(run_dir, saved_model_dir, dtype, freeze, card, warmup_texts, ensemble, **options):
    """Export a run as a SavedModel: strings in, beam-searched translations out.

    SAVED_MODEL_DIR is a version folder, such as saved_models/en_de/1; one that exists is refused.

    \b
    keras-mt export runs/en_de saved_models/en_de/1
    """
    from keras_mt.serving.export import check_absent
    from keras_mt.translation import Translator

    check_absent(saved_model_dir)  # Before anything is loaded.
    translator = Translator.load([run_dir, *ensemble], **_given(options))
    translator.export(
        saved_model_dir,
        dtype=dtype,
        freeze=freeze,
        card=_json_object(card) if card else None,
        warmup_texts=warmup_texts.read().splitlines() if warmup_texts else None,
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
    help="What each translation shall begin with, a line for each line.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with the scores.")
@click.option("--token-scores", is_flag=True, help="The log-probability of each token too.")
def translate(model, text, prefixes, as_json, token_scores, **search):
    """Translate FILE, or standard input, line by line.

    Writes exactly one line for each line, in order. A line that is not UTF-8 gives an empty line
    and a message on standard error. With --n-best above 1 the translations of a line stand side by
    side, tabs between them.

    \b
    keras-mt translate runs/en_de < in.txt > out.txt
    echo "A man sleeps." | keras-mt translate runs/en_de --beam-size 8 --n-best 3 --json
    """
    if token_scores and not as_json:
        raise click.UsageError("--token-scores are written with --json.")
    translator = _load_translator(model, search)
    files = [text] if prefixes is None else [text, prefixes]
    with _progress(None) as progress:
        for number, *columns in _line_blocks(*files):
            texts, errors = _decoded(*columns)
            options = {"token_scores": True} if token_scores else {}
            for i, found in enumerate(translator.hypotheses(*texts, **options)):
                error = errors.get(i)
                if error is None and found is None:
                    error = "it has no translation: its prefix is longer than the model's limit, "
                    error += "or the model's probabilities are not finite"
                elif error is None and texts[0][i].strip() and found[0][:2] == ("", 0):
                    error = "nothing in it to translate"  # The tokenizer dropped all of it.
                if error:
                    click.echo(f"line {number + i} refused: {error}", err=True)
                shown = [] if error else found
                _write(_as_json(columns[0][i], shown, error) if as_json else _as_text(shown))
            sys.stdout.buffer.flush()
            progress.update(len(columns[0]))


@main.command()
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("source", type=click.File("rb"))
@click.argument("target", type=click.File("rb"))
@_ensemble_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, token by token.")
def score(run_dir, source, target, ensemble, as_json):
    """Score given translations: how probable the model finds them.

    For each line of SOURCE and TARGET writes the log-probability of the target and the perplexity
    of its tokens, a tab between them; at the end, on standard error, those of the whole. A line
    that is refused gives an empty line and a message.

    \b
    keras-mt score runs/en_de in.txt reference.txt > scores.tsv
    """
    from keras_mt.translation import Translator

    translator = Translator.load([run_dir, *ensemble])
    total = tokens = 0
    for number, *columns in _line_blocks(source, target):
        texts, errors = _decoded(*columns)
        for i, found in enumerate(translator.score(*texts)):
            error = errors.get(i) or ("longer than the model's limit" if found is None else None)
            if error:
                click.echo(f"line {number + i} refused: {error}", err=True)
                _write(json.dumps({"error": error}) if as_json else "")
                continue
            total, tokens = total + found.log_prob, tokens + len(found.tokens)
            if as_json:
                row = {"log_prob": found.log_prob, "perplexity": found.perplexity}
                _write(json.dumps({**row, "tokens": found.tokens}, ensure_ascii=False))
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
def align(run_dir, source, target, ensemble):
    """Show which source tokens each target token attends to.

    For each line of SOURCE, and of TARGET or else of its translation, writes a JSON object with the
    pieces of both and `attention`, a row for each target piece that sums to 1 over the source
    pieces. A line that is refused gives an object with the error, and a message.

    \b
    keras-mt align runs/en_de in.txt > alignments.jsonl
    keras-mt align runs/en_de in.txt reference.txt > alignments.jsonl
    """
    from keras_mt.translation import Translator

    translator = Translator.load([run_dir, *ensemble])
    for number, *columns in _line_blocks(*filter(None, (source, target))):
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
                _write(json.dumps({"error": error}))
                continue
            row = {"source": pieces, "target": target_pieces}
            rows = [[round(float(a), 4) for a in weights] for weights in attention]
            _write(json.dumps({**row, "attention": rows}, ensure_ascii=False))


def _line_blocks(*files):
    """The lines of files that run side by side, in blocks: the first line's number, then lists.

    Raises:
        ValueError: If a file ends before the others.
    """
    size = 1 if files[0].isatty() else _BLOCK_LINES
    number = 1
    while True:
        columns = [[line.removesuffix(b"\n") for line in itertools.islice(f, size)] for f in files]
        lengths = [len(lines) for lines in columns]
        if min(lengths) != max(lengths):
            names = " and ".join(str(file.name) for file in files)
            raise ValueError(
                f"{names} must have as many lines: one ends after {number + min(lengths) - 1}."
            )
        if not columns[0]:
            return
        yield number, *columns
        number += len(columns[0])


def _decoded(*columns):
    """Columns of str, and what is wrong by index; a line that is wrong is empty in all columns."""
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


def _as_json(line, found, error):
    result = {
        "source": line.decode("utf-8", "replace"),
        "translations": [
            {"text": h.text, "score": round(h.score, 6)}
            | ({"tokens": h.tokens} if h.tokens else {})
            for h in found
        ],
    }
    return json.dumps({**result, **({"error": error} if error else {})}, ensure_ascii=False)


def _one_line(text):
    # A model may spell any byte; in a file of lines these would be taken for its structure.
    return text.translate({ord(mark): " " for mark in "\n\r\t"})


@main.command()
@click.argument("saved_model", type=click.Path(exists=True))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", type=int, default=7860, show_default=True)
def demo(saved_model, host, port):
    """Open a page where one types a text and sees translations, scores and alignments.

    \b
    keras-mt demo saved_models/en_de
    """
    from keras_mt.serving.demo import page

    page(saved_model).launch(server_name=host, server_port=port)


def _load_translator(path, search):
    """A translator from a run folder or an export; the options are those of the command."""
    if (Path(path) / "config.json").is_file():
        from keras_mt.translation import Translator

        ensemble = search.pop("ensemble")
        return Translator.load([path, *ensemble], **_given(search))
    from keras_mt.serving import ExportedTranslator, find_saved_model

    saved_model = find_saved_model(path)
    if saved_model is None:
        raise FileNotFoundError(f"{path} is neither a run folder nor a SavedModel.")
    if search := {name: value for name, value in _given(search).items() if value != ()}:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in search)
        raise ValueError(
            f"{saved_model} was exported with fixed options: give {names} to `keras-mt export`, "
            "or use the run folder."
        )
    return ExportedTranslator(saved_model)


def _json_object(file):
    try:
        value = json.load(file)
    except ValueError as error:
        raise ValueError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{file.name} must hold a JSON object, such as {{"license": "MIT"}}.')
    return value


def _given(options):
    return {name: value for name, value in options.items() if value is not None}


def _blocks(function, items):
    for i in range(0, len(items), _BLOCK_LINES):
        yield function(items[i : i + _BLOCK_LINES])


def _progress(total):
    from tqdm import tqdm

    return tqdm(total=total, unit=" lines", file=sys.stderr, disable=not sys.stderr.isatty())
