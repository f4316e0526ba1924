"""`keras-mt compare`."""

import os

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.options import data_options, search_options, split_option
from keras_mt.cli.systems import aligned_file, corpus_split, timed_translations


@click.command(cls=Command)
@click.argument("first", type=click.Path(exists=True), metavar="A")
@click.argument("second", type=click.Path(exists=True), metavar="B")
@data_options
@split_option
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
@search_options
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
    sources, references = corpus_split(data, source, target, split)
    names = first, second
    systems = {path: aligned_file(path, len(sources)) for path in names if os.path.isfile(path)}
    for path in names:
        if path not in systems:
            systems[path], _ = timed_translations(path, search, sources, (source, target), True)
    training = None
    if has_split(data, source, target, "train"):
        pairs = load_corpus(data, source, target, "train").as_numpy_iterator()
        training = (pair[1].decode("utf-8") for pair in pairs)
    comparison = Comparison(sources, references, *map(systems.get, names), names, training)
    if html:
        page = comparison.as_html(100 if number is None else number)
        with atomic_write(html) as temporary:
            temporary.write_text(page, encoding="utf-8")
        click.echo(f"wrote {html}")
        return
    click.echo(comparison.as_text(10 if number is None else number, _colored))


def _colored(word, right):
    return click.style(word, fg="green" if right else "red", underline=True)
