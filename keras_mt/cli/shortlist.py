"""`keras-mt shortlist`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.options import RUN, count_option, data_options, options_of
from keras_mt.options import LanguageOptions


@click.command(cls=Command)
@click.argument("run", type=RUN)
@click.argument("output", type=click.Path())
@data_options()
@count_option("--size", default=50, help="List this many target tokens for each source token.")
@count_option("--frequent", default=200, help="Allow this many frequent target tokens everywhere.")
@options_of(LanguageOptions)
def shortlist(run, output, data, source, target, size, frequent, **languages):
    """Learn which target tokens a source token may become.

    It aligns the words of the first 200,000 training pairs, or as many of these as fit in memory
    (80,000 of 20 tokens a side), and writes the file OUTPUT. `translate`, `translate-files`,
    `evaluate` and `export` take it as --shortlist: they compute only the logits of these tokens.

    \b
    keras-mt shortlist runs/en_de en_de.shortlist --data my_corpus \\
        --source en --target de
    """
    from keras_mt.alignment import Shortlist
    from keras_mt.convert.hub import local_run
    from keras_mt.data import load_corpus
    from keras_mt.files import check_new
    from keras_mt.run_folder import RunFolder

    check_new(output)
    folder = RunFolder(local_run(run))
    folder.check_finished()
    defaults = folder.config.languages if folder.config else {}
    tokenizer = folder.load_tokenizer()
    if {source, target} <= {*tokenizer.languages}:
        defaults = {"source_language": source, "target_language": target}
    codes = [code or defaults.get(name) for name, code in languages.items()]
    pairs = load_corpus(data, source, target, "train")
    Shortlist.learn(pairs, tokenizer, size, frequent, codes).save(output)
    click.echo(f"wrote {output}")
