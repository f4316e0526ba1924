"""What trimming a vocabulary saves, for a model of NLLB's shape and two languages.

usage: python benchmarks/trimming.py FOLDER LANGUAGE LANGUAGE [--layers N] [--output FILE]

FOLDER holds LANGUAGE.train.txt and so on. The model is NLLB's (12 + 12 layers, 1,024 wide, 256,206
pieces, tied) with random weights; 20,000 pieces are those of the text, the others of none.
`keras-mt trim` leaves what the text needs. The run in float32, and CTranslate2's exports of it in
float32 and int8, then translate two sentences to exactly 25 tokens with beam 4, on one thread and
in processes of their own that take turns, before and after. Prints a table and a JSON line for
each: sentences per second, CPU seconds to the first answer, resident memory and size on disk. It
takes 10 GB of memory, and 12 on disk.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import decode
import harness

PIECES, VOCAB_SIZE, SENTENCES, LENGTH = 20_000, 256_206, 2, 25
SYSTEMS = ("keras_mt-float32", "ctranslate2-float32", "ctranslate2-int8")
FIXED = {"beam_size": decode.BEAM_SIZE, "min_length": LENGTH, "max_length": LENGTH}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="FOLDER")
    parser.add_argument("languages", nargs=2, metavar="LANGUAGE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=decode.NLLB["num_layers"])
    parser.add_argument("--vocab-size", type=int, default=VOCAB_SIZE)
    parser.add_argument("--output", type=Path, help="File to append the JSON lines to.")
    arguments = parser.parse_args()
    sides = [arguments.data / f"{code}.train.txt" for code in arguments.languages]
    with tempfile.TemporaryDirectory() as folder:
        apart("make", folder, *sides, arguments.layers, arguments.vocab_size)
        apart("trim", folder, arguments.data, *arguments.languages)
        commands = {}
        for state in ("before", "after"):
            for system in SYSTEMS:
                apart("convert", folder, state, system)
                command = [sys.executable, "-c", code_of("work", folder, state, system)]
                commands[f"{system}-{state}"] = command
        results = harness.take_turns(commands, arguments.rounds, {"1": (1, 1)})
        for name, found in results.items():
            system, _, state = name.rpartition("-")
            files = path_of(folder, state, system).rglob("*")
            found[0]["disk"] = sum(path.stat().st_size for path in files if path.is_file())
    workload = f"nllb-{arguments.layers}+{arguments.layers}"
    packages = ("tensorflow", "keras", "ctranslate2")
    harness.report("trimming", workload, results, "sentences/s", packages, arguments.output)


def apart(step, *arguments):
    """Runs a step in a process of its own, whose memory is not measured."""
    subprocess.run(
        [sys.executable, "-c", code_of(step, *arguments)], check=True, env=harness.ENVIRONMENT
    )


def code_of(step, *arguments):
    """The program that calls a function of this file."""
    here, given = str(Path(__file__).parent), ", ".join(repr(str(each)) for each in arguments)
    return f"import sys; sys.path.insert(0, {here!r}); import trimming; trimming.{step}({given})"


def path_of(folder, state, system):
    """The folder of a system's model: of keras_mt it is the run."""
    return Path(folder) / (state if system.startswith("keras_mt") else f"{state}-{system}")


def make(folder, source, target, layers, vocab_size):
    """Writes the run, and the sentences."""
    from keras_mt.run_folder import RunConfig, RunFolder

    folder = Path(folder)
    texts = [Path(path).read_text(encoding="utf-8") for path in (source, target)]
    (folder / "texts").write_text("".join(texts), encoding="utf-8")
    (folder / "sources").write_text("\n".join(texts[0].splitlines()[:SENTENCES]), encoding="utf-8")
    path = folder / "padded.model"
    tokenizer = decode.padded_tokenizer(folder / "texts", path, int(vocab_size), PIECES)
    shape = decode.NLLB | {"num_layers": int(layers)}
    model = decode.random_model(decode.Workload(SENTENCES, LENGTH, shape, int(vocab_size)))
    run = RunFolder(folder / "before")
    run.path.mkdir()
    run.save_tokenizer(tokenizer)
    run.write_config(RunConfig([], "", ""))
    model.save(run.model_file)


def trim(folder, *arguments):
    """Runs the command."""
    data, source, target = arguments
    folder = Path(folder)
    given = ["--data", data, "--source", source, "--target", target]
    command = ["keras_mt", "trim", str(folder / "before"), str(folder / "after"), *given]
    subprocess.run([sys.executable, "-m", *command], check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU seconds, {used.ru_maxrss / 2**20:.1f} GB")


def convert(folder, state, system):
    """Writes CTranslate2's folder of a run."""
    import keras_mt
    from keras_mt.convert import export

    kind, _, precision = system.partition("-")
    if kind == "ctranslate2":
        translator = keras_mt.Translator.load(Path(folder) / state, dtype=None)
        quantization = None if precision == "float32" else precision
        export(translator, path_of(folder, state, system), kind, quantization=quantization)


def work(folder, state, system):
    """Runs in the worker's process: translates the sentences for each line asked for."""
    sentences = (Path(folder) / "sources").read_text(encoding="utf-8").splitlines()
    kind, _, precision = system.partition("-")
    path = path_of(folder, state, system)
    if kind == "keras_mt":
        os.environ["KERAS_BACKEND"] = "tensorflow"
        import keras_mt

        translate = keras_mt.Translator.load(path, split_sentences=False, **FIXED)
    else:
        import ctranslate2
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(str(path / "tokenizer.model"))
        translator = ctranslate2.Translator(str(path), compute_type=precision, intra_threads=1)
        options = {"beam_size": decode.BEAM_SIZE, "min_decoding_length": LENGTH}
        options |= {"max_decoding_length": LENGTH}

        def translate(sentences):
            return translator.translate_batch(processor.encode(sentences, out_type=str), **options)

    harness.serve(lambda: {"amount": len(translate(sentences))})


if __name__ == "__main__":
    main()
