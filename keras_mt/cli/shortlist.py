"""`keras-mt shortlist`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import Model, data_options, options_of
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("run_dir", type=Model())
@click.argument("output", type=click.Path())
@data_options
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
    help="Number of the most frequent target tokens, which are always included.",
)
@options_of(LanguageOptions)
def shortlist(run_dir, output, data, source, target, size, frequent, **languages):
    """Learn which target tokens each source token may become, from a corpus.

    It learns by word alignment from the first 200,000 pairs of the training split, or as many of
    these as fit in memory (80,000 of 20 tokens a side), and writes the file OUTPUT. With
    `--shortlist OUTPUT`, `translate`, `evaluate` and `export` compute only the logits of these
    tokens.

    \b
    keras-mt shortlist runs/en_de en_de.shortlist --data my_corpus --source en --target de
    """
    from keras_mt.alignment import Shortlist
    from keras_mt.convert.hub import local_run
    from keras_mt.data import load_corpus
    from keras_mt.files import check_new
    from keras_mt.run_folder import RunFolder

    check_new(output)
    folder = RunFolder(local_run(run_dir))
    folder.check_finished()
    defaults = folder.config.languages if folder.config else {}
    tokenizer = folder.load_tokenizer()
    if {source, target} <= {*tokenizer.languages}:
        defaults = {"source_language": source, "target_language": target}
    codes = [code or defaults.get(name) for name, code in languages.items()]
    pairs = load_corpus(data, source, target, "train")
    Shortlist.learn(pairs, tokenizer, size, frequent, codes).save(output)
    click.echo(f"wrote {output}")
