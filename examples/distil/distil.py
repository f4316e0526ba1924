"""A small student from a big teacher: sequence-level distillation (Kim and Rush 2016).

usage: python examples/distil/distil.py translate TEACHER FOLDER --data DATA --source en --target de
           [--part-lines N] [--set KEY=VALUE ...]
       python examples/distil/distil.py filter FOLDER DISTILLED.tsv [--keep 0.95] [--most-ratio 2]
       keras-mt train --data DISTILLED.tsv --source en --target de --output STUDENT ...
       python examples/distil/distil.py compare RUN_DIR ... --data DATA --source en --target de
           --output RESULTS.jsonl [--systems NAME,...] [--beam-size N]
           [--tokenize NAME] [--rounds N] [--source-language CODE] [--target-language CODE]

translate makes the teacher, a run folder, translate the training split into FOLDER, part by part.
If interrupted, the same command resumes. --set is any option of a Translator, such as beam_size=5
or target_language=deu_Latn.

filter leaves out the worst translations by the teacher's score, and those far longer or shorter
than usual, and writes a corpus whose validation split is the original one.

compare measures BLEU, chrF, speed and size of each run, as it is deployed, and of the same run in
CTranslate2 where that is installed. The languages are for multilingual runs.
"""

import argparse
import contextlib
import datetime
import filecmp
import functools
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import sacrebleu
import tensorflow as tf

from keras_mt import ExportedTranslator, Translator, __version__
from keras_mt.convert import export
from keras_mt.data import load_corpus
from keras_mt.data.corpus import has_split
from keras_mt.documents import translate_files
from keras_mt.files import atomic_write
from keras_mt.run_folder import RunFolder

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from harness import installed, machine


def main():
    step, arguments = arguments_of()
    try:
        step(**arguments)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; give the same command again to go on.")


def arguments_of(line=None):
    """The function for a command line, and its arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="translate|filter|compare")
    corpus = argparse.ArgumentParser(add_help=False)
    for name in ("--data", "--source", "--target"):
        corpus.add_argument(name, required=True)

    step = steps.add_parser("translate", parents=[corpus])
    step.set_defaults(step=translate)
    step.add_argument("teacher", metavar="TEACHER")
    step.add_argument("folder", type=Path, metavar="FOLDER")
    step.add_argument("--part-lines", type=int, default=2048, metavar="N")
    step.add_argument("--set", type=setting, action="append", default=[], metavar="KEY=VALUE")

    step = steps.add_parser("filter")
    step.set_defaults(step=filter_)
    step.add_argument("folder", type=Path, metavar="FOLDER")
    step.add_argument("output", type=Path, metavar="DISTILLED.tsv")
    step.add_argument("--keep", type=float, default=0.95, metavar="SHARE")
    step.add_argument("--most-ratio", type=float, default=2.0, metavar="R")

    step = steps.add_parser("compare", parents=[corpus])
    step.set_defaults(step=compare)
    step.add_argument("runs", nargs="+", metavar="RUN_DIR")
    step.add_argument("--output", type=Path, required=True, metavar="RESULTS.jsonl")
    step.add_argument("--split", default="test")
    step.add_argument("--tokenize", default="13a", help="sacreBLEU's tokenizer")
    step.add_argument("--beam-size", type=int, default=4)
    step.add_argument("--rounds", type=int, default=3)
    step.add_argument("--source-language", metavar="CODE")
    step.add_argument("--target-language", metavar="CODE")
    step.add_argument("--systems", type=systems, default=[*SYSTEMS], metavar="NAME,...")

    arguments = vars(parser.parse_args(line))
    return arguments.pop("step"), arguments


def setting(text):
    """KEY=VALUE, the value as JSON or else as it stands."""
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be KEY=VALUE. Received: {text}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def systems(text):
    """Names of systems, commas between them."""
    names = text.split(",")
    if unknown := [name for name in names if name not in SYSTEMS]:
        raise argparse.ArgumentTypeError(
            f"there is no system {unknown[0]}; there are {', '.join(SYSTEMS)}"
        )
    return names


def translate(teacher, folder, data, source, target, part_lines, set):
    """The teacher's translations of the training split: FOLDER/translated/pairs.jsonl."""
    translator = Translator.load(teacher, **dict(set))
    folder.mkdir(parents=True, exist_ok=True)
    write_pairs(folder / "pairs.jsonl", load_corpus(data, source, target, "train"))
    work = {"data": str(Path(data).resolve()) if Path(data).exists() else data}
    with atomic_write(folder / "work.json") as temporary:
        temporary.write_text(json.dumps(work | {"source": source, "target": target}) + "\n")
    translate_files(
        functools.partial(with_translations, translator),
        [folder / "pairs.jsonl"],
        folder / "translated",
        {"model": translator.fingerprint, "source": source, "target": target, **dict(set)},
        format="lines",
        part_lines=part_lines,
        max_line_bytes=2**24,
        progress=lambda done, total: print(f"{done:,} of {total:,} lines", flush=True),
    )


def write_pairs(path, pairs):
    """Writes a JSON object a line, or checks that there are the same ones."""
    with tempfile.TemporaryDirectory(dir=path.parent) as other:
        new = Path(other, "pairs.jsonl")
        with open(new, "w", encoding="utf-8") as file:
            for sides in pairs.as_numpy_iterator():
                row = zip(("source", "reference"), (s.decode("utf-8") for s in sides), strict=True)
                file.write(json.dumps(dict(row), ensure_ascii=False) + "\n")
        if not path.exists():
            new.replace(path)
        elif not filecmp.cmp(path, new, shallow=False):
            raise ValueError(
                f"{path.parent} holds translations of another corpus: give a new folder, or the "
                "command that they were begun with."
            )


def with_translations(translator, lines):
    """The lines that `write_pairs` wrote, with translations and scores."""
    rows = [json.loads(line) for line in lines]
    found = translator.hypotheses([row["source"] for row in rows])
    for row, hypotheses in zip(rows, found, strict=True):
        if hypotheses:
            row |= {"translation": hypotheses[0].text, "score": hypotheses[0].score}
    return [json.dumps(row, ensure_ascii=False) for row in rows], {}


def filter_(folder, output, keep, most_ratio):
    """Writes the pairs of source and translation that are kept, as a corpus in one file."""
    if not 0 < keep <= 1:
        raise ValueError(f"--keep must be above 0 and at most 1. Received: {keep}")
    if most_ratio < 1:
        raise ValueError(f"--most-ratio must be at least 1. Received: {most_ratio}")
    if output.suffix != ".tsv":
        raise ValueError(f"{output} must end in .tsv, as keras-mt train takes it.")
    path = folder / "translated" / "pairs.jsonl"
    if not (path.exists() and (folder / "work.json").exists()):
        raise ValueError(
            f"{folder} is not all translated: give the command that translates to its end."
        )
    work = json.loads((folder / "work.json").read_text())
    # The file is read twice: only lengths and scores are held in memory.
    columns = np.fromiter(map(measures, rows(path)), np.dtype((float, 3))).T
    kept, counts = choose(*columns, keep, most_ratio)
    corpus = work["data"], work["source"], work["target"]
    with atomic_write(output) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(f"{work['source']}\t{work['target']}\tsplit\n")
        for row in itertools.compress(rows(path), kept):
            pair = (in_a_column(row[side]) for side in ("source", "translation"))
            file.write("\t".join(pair) + "\ttrain\n")
        if has_split(*corpus, "validation"):
            for sides in load_corpus(*corpus, "validation").as_numpy_iterator():
                pair = (in_a_column(side.decode("utf-8")) for side in sides)
                file.write("\t".join(pair) + "\tvalidation\n")
    print(json.dumps(counts))


def rows(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        yield from map(json.loads, file)


def measures(row):
    """The characters of the source and of the translation, and the score."""
    translation = row.get("translation", "").strip()
    return len(row["source"].strip()), len(translation), row.get("score", -np.inf)


def choose(source_lengths, target_lengths, scores, keep, most_ratio):
    """Which translations are kept, a Boolean array, and why others are not, a dict of counts.

    A translation's ratio is its length over its source's, in characters, divided by the median of
    these, so that 1 is usual between the two languages. It must be from 1 / most_ratio to
    most_ratio. Of those that are not empty, the share `keep` with the best scores is kept; of equal
    scores the first.
    """
    there = (source_lengths > 0) & (target_lengths > 0) & np.isfinite(scores)
    if not there.any():
        raise ValueError("No translation has a text and a score.")
    ratios = target_lengths / np.maximum(source_lengths, 1)
    ratios = ratios / np.median(ratios[there])
    usual = (ratios <= most_ratio) & (ratios * most_ratio >= 1)
    order = np.argsort(np.where(there, -scores, np.inf), kind="stable")
    good = np.zeros(len(scores), bool)
    good[order[: round(keep * there.sum())]] = True
    kept = there & usual & good
    return kept, {
        "lines": len(kept),
        "kept": int(kept.sum()),
        "empty": int((~there).sum()),
        "of_unusual_length": int((there & ~usual).sum()),
        "of_low_score": int((there & ~good).sum()),
        "least_score": round(float(scores[kept].min()), 4) if kept.any() else None,
    }


def in_a_column(text):
    return " ".join(text.split())


# What each run is measured in: package and precision. Each takes one thread.
SYSTEMS = {
    "keras_mt-float32": {},
    "keras_mt-bfloat16": {"dtype": "bfloat16"},
    "ctranslate2-float32": {},
    "ctranslate2-int8": {"quantization": "int8"},
}


def compare(runs, data, source, target, *, split, output, tokenize, rounds, systems, **options):
    """Writes a JSON line for each run in each system, and prints the table.

    Each system is in a process of its own, on one core and one thread. All load first and then take
    turns for `rounds` rounds, after one to warm up.
    """
    metrics = {"bleu": sacrebleu.BLEU(tokenize=tokenize), "chrf": sacrebleu.CHRF()}
    pairs = list(load_corpus(data, source, target, split).as_numpy_iterator())
    sources, references = ([pair[side].decode("utf-8") for pair in pairs] for side in (0, 1))
    names = {Path(run).name for run in runs}
    if len(names) < len(runs):
        raise ValueError("The run folders must have different names, which the table shows.")
    with tempfile.TemporaryDirectory() as folder:
        loaded = [
            each
            for run in runs
            for each in load_systems(run, Path(folder), sources, systems, **options)
        ]
        for line, worker, finish in loaded:
            translations = finish(worker.ask()[0])
            for name, metric in metrics.items():
                score = metric.corpus_score(translations, [references], n_bootstrap=1000)
                signature = str(metric.get_signature())
                score = json.loads(score.format(signature=signature, is_json=True))
                # Where all scores are 0 there is none.
                interval = score.get("confidence_var", 0.0)
                line |= {name: score["score"], f"{name}_interval": interval}
                line[f"{name}_signature"] = signature
            line |= {"sentences": len(sources), "threads": 1, "seconds": []}
            print(f"{line['run']}, {line['system']}: BLEU {line['bleu']}", file=sys.stderr)
        for _ in range(rounds):
            for line, worker, _ in loaded:
                line["seconds"].append(round(worker.ask()[1], 4))
    lines = [line for line, *_ in loaded]
    packages = ("keras", "tensorflow", "ctranslate2", "sacrebleu")
    for line in lines:
        rate = len(sources) / statistics.median(line["seconds"])
        line |= {"sentences_per_second": round(rate, 1), "machine": machine()}
        line |= {"date": datetime.date.today().isoformat()}
        line["versions"] = {"keras_mt": __version__}
        line["versions"] |= {name: metadata.version(name) for name in packages if installed(name)}
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as temporary:
        temporary.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines))


class Worker:
    """A process that loads a system, and translates once each time that it is asked.

    Args:
        load: Function that returns the one that translates.
        *arguments: Of `load`.
    """

    def __init__(self, load, *arguments):
        context = multiprocessing.get_context(
            "spawn"
        )  # TensorFlow's threads do not survive a fork.
        self._pipe, other = context.Pipe()
        context.Process(target=serve, args=(other, load, *arguments), daemon=True).start()
        other.close()

    def ask(self):
        """What was translated, and the seconds that it took."""
        try:
            self._pipe.send(None)
            return self._pipe.recv()
        except (EOFError, BrokenPipeError):
            raise ChildProcessError("a system's process failed; its messages are above.") from None


def serve(pipe, load, *arguments):
    if hasattr(os, "sched_setaffinity"):  # Linux.
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    run = load(*arguments)
    with contextlib.suppress(EOFError):  # When the one that asks has ended.
        while True:
            pipe.recv()
            start = time.perf_counter()
            found = run()
            pipe.send((found, time.perf_counter() - start))


def load_systems(run, folder, sources, systems, beam_size, **languages):
    """For each system that can run it: what is known of it, a Worker that translates
    the sources, and a function that makes strings of the result."""
    if not RunFolder(run).load_tokenizer().languages:
        languages = {}
    # CTranslate2 has only this stopping rule, and takes lines whole.
    search = {"beam_size": beam_size, "early_stopping": True, "split_sentences": False}
    search |= {name: code for name, code in languages.items() if code is not None}
    translator = Translator.load(run, **search)
    config = translator.models[0].get_config()
    layers = {
        name: config[name] or config["num_layers"]
        for name in ("num_encoder_layers", "num_decoder_layers")
        if name in config
    }
    for system in systems:
        options = SYSTEMS[system]
        directory = folder / Path(run).name / system / "1"
        directory.parent.mkdir(parents=True)
        if system.startswith("keras_mt"):
            translator.export(directory, **options)
            worker, finish = Worker(load_ours, directory, sources), list
        else:
            try:
                export(translator, directory, "ctranslate2", **options)
            except ValueError as error:
                print(f"{system} of {run} is left out: {error}", file=sys.stderr)
                continue
            pieces, search_options, finish = theirs(translator, sources)
            worker = Worker(load_theirs, directory, pieces, search_options)
        files = [file for file in directory.rglob("*") if file.is_file()]
        yield (
            {
                "run": Path(run).name,
                "system": system,
                "parameters": translator.models[0].count_params(),
                **layers,
                **search,
                "megabytes": round(sum(file.stat().st_size for file in files) / 1e6, 2),
            },
            worker,
            finish,
        )


def load_ours(directory, sources):
    exported = ExportedTranslator(directory)

    def run():
        return [found[0].text if found else "" for found in exported.hypotheses(sources)]

    return run


def load_theirs(directory, pieces, options):
    """CTranslate2, which takes and gives pieces: its time is without our tokenizer."""
    import ctranslate2

    model = ctranslate2.Translator(str(directory), intra_threads=1, inter_threads=1)

    def run():
        return [found.hypotheses[0] for found in model.translate_batch(pieces, **options)]

    return run


def theirs(translator, sources):
    """The pieces of the sources, the search options, and what makes strings of pieces."""
    tokenizer, beam_size = translator.tokenizer, translator.options.beam_size
    codes = (translator.source_language, translator.target_language)
    names = as_strings(tokenizer.id_to_string(tf.range(tokenizer.target_vocab_size)))
    names = [name or f"<unused{i}>" for i, name in enumerate(names)]  # As they are written.
    ids = {name: i for i, name in enumerate(names)}
    options = {"beam_size": beam_size, "max_batch_size": 256, "batch_type": "examples"}
    limit = translator.models[0].max_length
    options |= {"max_input_length": limit, "max_decoding_length": min(256, limit - 1)}
    options["suppress_sequences"] = [[names[i]] for i in tokenizer.forbidden_ids]
    pieces = tokenizer.pieces(tf.constant(sources))
    if tokenizer.languages:
        source, target = (tf.fill([len(sources)], code) for code in codes)
        pieces = tokenizer.source_ids(pieces, source, target)
        forced = tokenizer.id_to_string(tokenizer.forced_ids(target[:1])[0])
        options["target_prefix"] = [as_strings(forced)] * len(sources)
    texts = tokenizer.source_id_to_string(pieces.flat_values)
    texts = tf.RaggedTensor.from_row_splits(texts, pieces.row_splits)

    def finish(found):
        found = [[ids[piece] for piece in row] for row in found]
        flat = tf.constant([*itertools.chain(*found)], tf.int32)
        found = tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in found])
        return as_strings(tokenizer.text(found))

    return [as_strings(row) for row in texts], options, finish


def as_strings(tensor):
    return [text.decode("utf-8", "replace") for text in tensor.numpy()]


def table(lines):
    """The table in Markdown."""
    columns = ["", "system", "parameters", "BLEU", "chrF", "sentences/s", "MB"]
    found = [columns, ["---", "---", *["---:"] * (len(columns) - 2)]]
    for line in lines:
        found.append([
            line["run"], line["system"], f"{line['parameters']:,}", f"{line['bleu']:.1f}",
            f"{line['chrf']:.1f}", f"{line['sentences_per_second']:.0f}",
            f"{line['megabytes']:.1f}",
        ])  # fmt: skip
    return "".join(f"| {' | '.join(line)} |\n" for line in found)


if __name__ == "__main__":
    main()
