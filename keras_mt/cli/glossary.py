"""`keras-mt glossary`."""

import click

from keras_mt.cli.command import Command, import_for
from keras_mt.cli.models import kind_of, load_translator
from keras_mt.cli.options import FILE, MODEL, options_of
from keras_mt.options import LanguageOptions

_UNKNOWN = "<unk>"  # The piece of what a model does not know.


@click.command(cls=Command, is_light=True)
@click.argument("file", type=FILE)
@click.argument("model", type=MODEL, required=False)
@options_of(LanguageOptions)
@click.pass_obj
def glossary(run_package, file, model, **languages):
    """Show all that is wrong with a glossary.

    Each line that is no term, and each source with two targets, gets a message. The exit status is
    then 1; commands that take a glossary refuse such a file.

    With MODEL it also names terms that are too long for the model, and those with characters that
    the model does not know. Commands accept these, but may put them in the wrong place.

    \b
    keras-mt glossary terms.txt
    keras-mt glossary terms.txt saved_models/en_de
    """
    from keras_mt.text.glossary import read_terms

    terms, wrong = read_terms(file)
    if model:
        if run_package:
            import_for({kind_of(model)}, run_package)
        wrong += _unreadable(load_translator(model, languages), terms)
    for message in wrong:
        click.echo(message)
    if wrong:
        raise click.exceptions.Exit(1)
    click.echo(f"{len(terms):,} terms: nothing wrong")


def _unreadable(translator, terms):
    """Messages of the terms that a model cannot read."""
    rows = [(name, term.source) for name, term in terms.items()]
    if translator.reads_terms:
        rows += [(name, term.target) for name, term in terms.items() if term.target]
    texts = [text for _, text in rows]
    aligns, messages = translator.supports_alignment, []
    found = (translator.align if aligns else translator.score)(texts, ["."] * len(texts))
    for i, ((name, text), read) in enumerate(zip(rows, found, strict=True)):
        if i in found.refusals:
            messages.append(f"{name} is too long: {found.refusals[i].partition(':')[0]}.")
        elif aligns and _UNKNOWN in read[0]:
            messages.append(f"{name} has a character that the model does not know: {text!r}.")
    return messages
