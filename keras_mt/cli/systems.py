"""The systems that `evaluate` takes, and the corpus that they are measured on."""

import time

import click

from keras_mt.cli.lines import one_line, read_lines
from keras_mt.cli.models import load_translator, splits_sentences
from keras_mt.cli.output import progress_bar
from keras_mt.errors import InputError

# Lines translated together, so that lines of similar length share a batch.
_BLOCK_LINES = 2048


def corpus_split(data, source, target, split):
    """The sources and the references of a corpus, each text on one line."""
    from keras_mt.data import load_corpus

    pairs = list(load_corpus(data, source, target, split).as_numpy_iterator())
    return [[one_line(pair[side].decode("utf-8")) for pair in pairs] for side in (0, 1)]


def aligned_file(path, size):
    """The lines of a file, which must have `size` of them; lines may be blank."""
    with open(path, "rb") as file:
        lines = read_lines(file)
    if len(lines) != size:
        raise InputError(
            f"{path} has {len(lines):,} lines, and the split {size:,} sentences: they must agree."
        )
    return [one_line(line) for line in lines]


def timed_translations(path, search, sources, corpus, one_of_several):
    """A model's best translations, each on one line, and a dict of how they were made.

    `corpus` names the languages of the corpus that the sources are from.
    """
    name, translations = f"{path}: " if one_of_several else "", []
    try:
        translator = load_translator(path, search, corpus)
    except InputError as error:
        raise InputError(f"{name}{error}") from error

    with progress_bar(len(sources)) as progress:
        translator.hypotheses(sources[:1])  # Traces the graph, which is not timed.
        start = time.perf_counter()
        for i in range(0, len(sources), _BLOCK_LINES):
            block = translator.hypotheses(sources[i : i + _BLOCK_LINES])
            translations += [one_line(found[0].text) if found else "" for found in block]
            progress.update(len(block))
    seconds = time.perf_counter() - start
    for i, translation in enumerate(translations):
        if not translation:
            message = f"{name}sentence {i + 1} has no translation: {sources[i][:80]!r}"
            click.echo(message, err=True)
    return translations, {
        "split_sentences": splits_sentences(translator),
        "shortlist": search["shortlist"],
        "seconds": round(seconds, 2),
        "sentences_per_second": round(len(sources) / seconds, 1),
    }
