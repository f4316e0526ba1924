"""`keras-mt translate`."""

import functools

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input, one_line
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import Model, glossary_option, search_options
from keras_mt.cli.output import confidence_fields, to_json, write_answers


@click.command(cls=Command)
@click.argument("model", type=Model(), metavar="RUN_DIR_OR_EXPORT")
@click.argument("text", type=click.File("rb"), default="-", metavar="[FILE]")
@search_options
@glossary_option
@click.option(
    "--prefixes",
    type=click.File("rb"),
    metavar="FILE",
    help="The beginning of each translation: one line for each line of the input.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON object per line, with scores, confidence and warnings.",
)
@click.option(
    "--token-scores", is_flag=True, help="With --json: also the log-probability of each token."
)
@click.option(
    "--confidence/--no-confidence",
    default=True,
    help="With --json: also confidence and warnings. Each translation is then scored once more.  "
    "[default: yes]",
)
@click.option(
    "--markup",
    type=click.Choice(["html"]),
    help="Each line is a fragment of HTML: its text is translated, and its elements move to the "
    "corresponding words.  [default: plain text]",
)
def translate(model, text, prefixes, as_json, token_scores, confidence, markup, **options):
    """Translate FILE, or standard input, line by line.

    Writes exactly one line for each line, in order and as soon as it is translated. A line that is
    skipped, for example because it is not UTF-8, gives an empty line and a message on standard
    error; if all are skipped, the exit status is 1. With --n-best above 1, tabs separate the
    translations of a line.

    With --json each translation has its score; the mean log-probability of its tokens, and the
    least probable token; and warnings, a list that may hold "loop" (a sequence of tokens repeats
    over and over) and "length" (source and translation differ too much in length). A SavedModel
    gives confidence and warnings if it was exported with that signature. For each term and kept
    span, `placed` has its source, its target, and a warning, or null: "compound" (the translation
    has a longer word for it and others, which stays), "inserted" (it has no word for it) or "weak"
    (its place is uncertain).

    \b
    keras-mt translate runs/en_de < in.txt > out.txt
    keras-mt translate Helsinki-NLP/opus-mt-en-de < in.txt > out.txt
    echo "A man sleeps." | keras-mt translate runs/en_de --beam-size 8 --n-best 3 --json
    echo "A <b>man</b> sleeps." | keras-mt translate runs/en_de --markup html
    """
    if token_scores and not as_json:
        raise click.UsageError("--token-scores needs --json.")
    files = [text] if prefixes is None else [text, prefixes]
    check_standard_input(*files)
    translator = load_translator(model, options)
    confidence = as_json and confidence and translator.supports_confidence
    hypotheses = functools.partial(
        translator.hypotheses, token_scores=token_scores, confidence=confidence, markup=markup
    )
    # Tabs stand between several translations.
    breaks = "\n\r" if translator.options.n_best == 1 else "\n\r\t"

    def as_text(row, found):
        return "\t".join(one_line(hypothesis.text, breaks) for hypothesis in found)

    if as_json:
        write_answers(hypotheses, files, _as_json, _error_as_json)
    else:
        write_answers(hypotheses, files, as_text)


def _as_json(row, hypotheses):
    return to_json({"source": row.texts[0], "translations": list(map(_fields, hypotheses))})


def _error_as_json(row, error):
    return to_json({"source": row.texts[0], "translations": [], "error": error})


def _fields(hypothesis):
    fields = {"text": hypothesis.text, "score": round(hypothesis.score, 6)}
    if hypothesis.mean_log_prob is not None:  # With a confidence.
        fields |= confidence_fields(hypothesis)
    if hypothesis.placed:
        fields["placed"] = [placed._asdict() for placed in hypothesis.placed]
    return fields | ({"tokens": hypothesis.tokens} if hypothesis.tokens else {})
