"""`keras-mt evaluate`."""

import time

import click

from keras_mt.cli.command import Command
from keras_mt.cli.input import one_line, read_lines
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import FILE, FOLDER, MODEL, data_options, option, translation_options
from keras_mt.cli.output import to_json
from keras_mt.cli.progress import progress_bar, waiting
from keras_mt.errors import InputError
from keras_mt.extras import needed
from keras_mt.files import check_new, new_folder

# Lines translated before the time is taken: graphs are traced, also that for terms.
_WARM_UP = 32
# Bootstrap resamples by default, and for how many sentences: sacreBLEU holds them all, 1 GB then.
_RESAMPLES, _MAX_RESAMPLED = 1000, 10_000
# Those of sacreBLEU, which is not imported for a list.
_TOKENIZERS = (
    *("none", "zh", "13a", "intl", "char", "ja-mecab", "ko-mecab", "spm"),
    *("flores101", "flores200", "spBLEU-1K"),
)


@click.command(cls=Command)
@click.argument("models", type=MODEL, nargs=-1, metavar="[MODEL]...")
@data_options()
@option("--split", metavar="NAME", default="test", help="Take this split of the corpus.")
@option("--output", type=FOLDER, help="Write sources, hypotheses and references to this folder.")
@option("--hypotheses", type=FILE, multiple=True, help="Score another system's translations too.")
@option("--references", type=FILE, multiple=True, help="Compare with these references as well.")
@option(
    "--paired",
    type=click.Choice(["bootstrap", "randomization"]),
    help="Test whether each system differs from the first.",
)
@option(
    "--resamples",
    type=click.IntRange(min=0),
    help="Draw this many bootstrap resamples for confidence intervals; 0 leaves these out.  "
    "[default: 1000; 0 above 10,000 sentences]",
)
@translation_options
@option(
    "--tokenize",
    type=click.Choice(_TOKENIZERS, case_sensitive=False),
    metavar="NAME",
    default="13a",
    help="Compute BLEU with this tokenizer of sacreBLEU, such as zh, char or none.",
)
def evaluate(models, split, references, hypotheses, paired, resamples, output, tokenize, **options):
    """Score translations with BLEU, chrF and chrF++.

    The last line of the output is a JSON object with bleu, chrf and their signatures; of several
    systems it has `systems`, a list of such objects. A table goes to standard error. With
    --glossary, `terms` has the number of terms in the sources, and the translations' share.

    \b
    keras-mt evaluate runs/en_de --data my_corpus --source en --target de
    keras-mt evaluate runs/a runs/b --data my_corpus --source en --target de \\
        --paired bootstrap
    keras-mt evaluate --hypotheses theirs.txt --data my_corpus \\
        --source en --target de
    """
    with needed("keras-mt evaluate", "sacrebleu"):
        from keras_mt.evaluation.scoring import Scorer, terms_kept
    from keras_mt.text import Glossary

    names = [*models, *hypotheses]
    corpus = [options.pop(name) for name in ("data", "source", "target")]
    if not names:
        raise click.UsageError("Give a run folder, a SavedModel or --hypotheses FILE.")
    if twice := {name for name in names if names.count(name) > 1}:
        raise click.UsageError(f"{twice.pop()} is given twice.")
    if paired and len(names) < 2:
        raise click.UsageError("--paired needs at least two systems.")
    if options["ensemble"] and len(models) != 1:
        raise click.UsageError("--ensemble goes with exactly one run folder.")
    if output:
        check_new(output)  # Before anything is translated, as all that can be refused.
    glossary = options["glossary"] and Glossary.load(options["glossary"])
    sources, reference = _corpus_split(*corpus, split)
    references = [reference, *(_aligned_file(path, len(sources)) for path in references)]
    texts = {path: _aligned_file(path, len(sources)) for path in hypotheses}
    if resamples is None:
        resamples = _RESAMPLES if len(sources) <= _MAX_RESAMPLED else 0
    scorer = Scorer(references, tokenize, resamples)
    systems = []
    for name in names:
        details = {"split_sentences": None}
        if name in models:
            texts[name], details = _translated(name, options, sources, corpus[1:])
        scores = {**scorer(texts[name]), "sentences": len(sources), **details, "system": name}
        if glossary:
            number, share = terms_kept(glossary, sources, texts[name])
            scores["terms"] = {"occurrences": number, "share": share}
        systems.append(scores)
    signatures = scorer.signatures()
    results = {"systems": systems} if len(systems) > 1 else systems[0]
    if paired:
        p_values, signatures = scorer.paired({name: texts[name] for name in names}, paired)
        for system in systems:
            system |= {f"{metric}_p": p for metric, p in p_values[system["system"]].items()}
        results["paired"] = {"test": paired, "against": names[0], "signatures": signatures}
    click.echo(_table(systems, signatures), err=True)
    click.echo(to_json(results))
    if output:  # Last: should it fail, the scores are there.
        _write_files(output, sources, [texts[name] for name in names], references)


def _corpus_split(data, source, target, split):
    """The sources and the references of a corpus, each text on one line."""
    from keras_mt.data.corpus import open_corpus

    pairs = list(open_corpus(data, source, target).pairs(split))
    if not pairs:
        raise InputError(f"{data} is empty.")
    return [[one_line(pair[side].decode("utf-8")) for pair in pairs] for side in (0, 1)]


def _aligned_file(path, size):
    """The lines of a file, which must have `size` of them; lines may be blank."""
    with open(path, "rb") as file:
        lines = read_lines(file)
    if len(lines) != size:
        raise InputError(
            f"{path} has {len(lines):,} lines, and the split {size:,} sentences: give a line for "
            "each sentence."
        )
    return [one_line(line) for line in lines]


def _translated(model, options, sources, languages):
    """A model's best translations, each on one line, and a dict of how they were made."""
    translator = load_translator(model, options, languages)
    with waiting(f"preparing {model}"):
        translator.hypotheses(sources[:_WARM_UP])
    start, done = time.perf_counter(), []
    with progress_bar() as progress:

        def advance(texts):
            done.append(texts)  # Some texts are read again, to place their terms.
            progress(min(sum(done), len(sources)), len(sources))

        advance(0)
        translator.on_batch = advance
        results = translator.hypotheses(sources)
    translations = [one_line(found[0].text) if found else "" for found in results]
    seconds = time.perf_counter() - start
    for number, (text, translation) in enumerate(zip(sources, translations, strict=True), start=1):
        if not translation:
            click.echo(f"{model}: sentence {number} has no translation: {text[:80]!r}", err=True)
    return translations, {
        "split_sentences": translator.options.split_sentences,
        "shortlist": options["shortlist"],
        "seconds": round(seconds, 2),
        "sentences_per_second": round(len(sources) / seconds, 1),
    }


def _table(systems, signatures):
    """Results as a table for people, with the metrics' signatures below it.

    A star marks a metric that differs from the first system's at p < 0.05.
    """
    from keras_mt.evaluation.scoring import METRICS

    speed = [n for n in ("seconds", "sentences_per_second") if any(n in x for x in systems)]
    rows = [["", *METRICS.values(), *(name.replace("_", " ") for name in speed)]]
    for system in systems:
        cells = [_cell(name, system, systems[0]) for name in METRICS]
        rows.append([system["system"], *cells, *(str(system.get(name, "")) for name in speed)])
    first, *others = ([*column] for column in zip(*rows, strict=True))
    columns = [[cell.ljust(max(map(len, first))) for cell in first]]
    columns += [[cell.rjust(max(map(len, column))) for cell in column] for column in others]
    lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    below = [f"{METRICS[name]:6}  {text}" for name, text in signatures.items()]
    return "\n".join([*lines, "", *below])


def _cell(name, system, first):
    """A metric's score, with its interval and its p-value if there are any."""
    cell = f"{system[name]:.2f}"
    interval, p_value = system.get(f"{name}_ci"), system.get(f"{name}_p")
    if interval is not None:
        cell += f" ± {interval:.2f}"
    if p_value is not None:  # It is low for equal systems too.
        differs = p_value < 0.05 and system[name] != first[name]
        cell += f" (p = {p_value:.4f}){'*' if differs else ''}"
    return cell


def _write_files(folder, sources, hypotheses, references):
    """Writes `source.txt`, `hypothesis.txt`, `hypothesis.2.txt` ... to a new folder."""
    columns = {"source": [sources], "hypothesis": hypotheses, "reference": references}
    with new_folder(folder) as temporary:
        for name, files in columns.items():
            for number, lines in enumerate(files, start=1):
                content = "".join(f"{line}\n" for line in lines)
                file = f"{name}.txt" if number == 1 else f"{name}.{number}.txt"
                (temporary / file).write_text(content, encoding="utf-8")
