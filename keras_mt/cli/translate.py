"""`keras-mt translate`."""

import functools

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import check_standard_input, one_line
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import MODEL, markup_option, n_best_option, option, translation_options
from keras_mt.cli.output import confidence_fields, to_json, write_answers


@click.command(cls=Command)
@click.argument("model", type=MODEL)
@click.argument("text", type=click.File("rb"), default="-", metavar="[FILE]")
@n_best_option
@option("--json", "as_json", is_flag=True, help="Write a JSON object per line.")
@markup_option
@translation_options
@option("--prefixes", type=click.File("rb"), help="Begin translations with this file's lines.")
@option("--token-scores", is_flag=True, help="Add the log-probability of each token to --json.")
@option("--no-confidence", is_flag=True, help="Leave confidence and warnings out of --json.")
def translate(model, text, prefixes, as_json, token_scores, no_confidence, markup, **options):
    """Translate a file, or standard input, line by line.

    It writes one line for each line, in order and as soon as it is translated. A line that is
    skipped, for example because it is not UTF-8, gives an empty line and a message; if all are
    skipped, the exit status is 1. Tabs separate the translations of --n-best.

    With --json each translation has its score, its mean log-probability, its least probable token,
    `warnings` ("loop" for one that repeats itself, "length" for one of unlike length), and in
    `placed` what each term and kept span became.

    \b
    keras-mt translate runs/en_de < in.txt > out.txt
    keras-mt translate Helsinki-NLP/opus-mt-en-de < in.txt > out.txt
    echo "A man sleeps." | keras-mt translate runs/en_de --n-best 3 --json
    """
    if token_scores and not as_json:
        raise click.UsageError("--token-scores needs --json.")
    files = [text] if prefixes is None else [text, prefixes]
    check_standard_input(*files)
    translator = load_translator(model, options)
    confidence = as_json and not no_confidence and translator.supports_confidence
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
