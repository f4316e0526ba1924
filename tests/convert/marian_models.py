"""Models with random weights in Marian's own format, and the engine that translates with them.

`python tests/convert/marian_models.py` writes golden/marian/golden.json anew: it needs npm.
"""

import io
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece

from keras_mt.convert.marian_files import read_marian, write_bin
from keras_mt.data import phrasebook

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "marian"
ENGINE = "@browsermt/bergamot-translator@0.4.9"

CONFIG = """\
type: transformer
dim-emb: {d_model}
dim-vocabs: [{sizes[0]}, {sizes[1]}]
enc-depth: 2
dec-depth: {depth}
transformer-heads: 4
transformer-dim-ffn: 48
transformer-decoder-autoreg: {autoreg}
dec-cell: ssru
transformer-ffn-activation: {activation}
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
tied-embeddings-all: {all}
tied-embeddings: {target}
output-omit-bias: {omit_bias}
version: v1.9.56
"""
D_MODEL, FF = 32, 48
DECODER = """\
beam-size: {}
normalize: {}
word-penalty: {}
max-length-factor: {}
"""
# By name: the arguments of `write`, and of DECODER.
KINDS = {
    f"{decoder}, {file}, {search}": (
        {"recurrent": decoder == "ssru", "file": f"model.{file[:3]}", "int8": file == "bin int8"},
        {"greedy": (1, 0, 0, 2.0), "beam 4": (4, 0.8, -0.3, 1.5)}[search],
    )
    for decoder in ("self-attention", "ssru")
    for file in ("npz", "bin", "bin int8")
    for search in ("greedy", "beam 4")
}
VARIANTS = {
    "embeddings apart, swish": ({"recurrent": True, "tied": "target", "activation": "swish"}, 4),
    "nothing tied, no bias": ({"recurrent": False, "tied": "none", "omit_bias": True}, 4),
    "one layer": ({"recurrent": True, "depth": 1}, 4),
    "gelu": ({"recurrent": False, "activation": "gelu"}, 4),
}
KINDS |= {name: (how, (beam, 1.0, 0, 2.0)) for name, (how, beam) in VARIANTS.items()}


def vocabulary(texts, size, rule="nmt_nfkc"):
    """The bytes of a SentencePiece model as Marian trains it: the end is 0, the unknown 1."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=size, eos_id=0, unk_id=1,
        bos_id=-1, pad_id=-1, normalization_rule_name=rule, hard_vocab_limit=False, num_threads=1,
        minloglevel=3,
    )  # fmt: skip
    return model.getvalue()


def size_of(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()


def weights(seed, sizes, recurrent, tied="all", omit_bias=False, depth=2):
    """The tensors by Marian's names, by its conventions, not by our code."""
    random = np.random.default_rng(seed)
    tensors = {}

    def add(name, rows, columns, scale=1.0, mean=0.0):
        values = mean + scale * random.standard_normal((rows, columns))
        tensors[name] = values.astype("float32")

    def add_norm(name):
        add(f"{name}_ln_scale", 1, D_MODEL, 0.1, 1.0)
        add(f"{name}_ln_bias", 1, D_MODEL, 0.1)

    def add_attention(name):
        for letter in "qkvo":
            add(f"{name}_W{letter}", D_MODEL, D_MODEL, 2.5 * D_MODEL**-0.5)
            add(f"{name}_b{letter}", 1, D_MODEL, 0.1)
        add_norm(f"{name}_Wo")

    for side, layers in (("encoder", 2), ("decoder", depth)):
        for i in range(1, layers + 1):
            place = f"{side}_l{i}"
            if side == "decoder" and recurrent:
                for name in ("W", "Wf"):
                    add(f"{place}_rnn_{name}", D_MODEL, D_MODEL, 4 * D_MODEL**-0.5)
                add(f"{place}_rnn_bf", 1, D_MODEL, 0.5)
                add_norm(f"{place}_rnn_ffn")
            else:
                add_attention(f"{place}_self")
            if side == "decoder":
                add_attention(f"{place}_context")
            add(f"{place}_ffn_W1", D_MODEL, FF, 2.5 * D_MODEL**-0.5)
            add(f"{place}_ffn_b1", 1, FF, 0.1)
            add(f"{place}_ffn_W2", FF, D_MODEL, 2.5 * FF**-0.5)
            add(f"{place}_ffn_b2", 1, D_MODEL, 0.1)
            add_norm(f"{place}_ffn_ffn")
    names = {"all": ["Wemb"]}.get(tied, ["encoder_Wemb", "decoder_Wemb"])
    for name, size in zip(names, sizes, strict=False):
        add(name, size, D_MODEL, 0.35)
    if tied == "none":
        add("decoder_ff_logit_out_W", D_MODEL, sizes[1], 0.35)
    if not omit_bias:
        add("decoder_ff_logit_out_b", 1, sizes[1], 0.5)
        tensors["decoder_ff_logit_out_b"][0, 0] = 2.0  # So that translations end.
    return tensors


def write_npz(path, tensors, config):
    """Writes a `.npz` file as Marian does."""
    text = np.frombuffer(config.encode() + b"\0", np.int8)
    np.savez(path, **{"special:model.yml": text}, **tensors)


def write(folder, seed, models, recurrent, *, tied="all", omit_bias=False, depth=2,
          activation="relu", file="model.npz", int8=False, decoder=None):  # fmt: skip
    """Writes a folder; returns its tensors and its configuration."""
    folder.mkdir()
    sizes = [size_of(models[0]), size_of(models[-1])]
    config = CONFIG.format(
        d_model=D_MODEL, sizes=sizes, depth=depth, activation=activation,
        autoreg="rnn" if recurrent else "self-attention", all=str(tied == "all").lower(),
        target=str(tied == "target").lower(), omit_bias=str(omit_bias).lower(),
    )  # fmt: skip
    tensors = weights(seed, sizes, recurrent, tied, omit_bias, depth)
    if file.endswith(".npz"):
        write_npz(folder / file, tensors, config)
    else:
        write_bin(folder / file, tensors, config, int8)
    names = ["vocab.spm"] if len(models) == 1 else ["srcvocab.spm", "trgvocab.spm"]
    for name, model in zip(names, models, strict=True):
        (folder / name).write_bytes(model)
    if decoder is not None:
        (folder / "decoder.yml").write_text(decoder)
    return tensors, config


def write_kind(name, folder, models):
    """Writes a folder of one of `KINDS`; returns the engine's job but for the texts.

    The engine gets the weights of int8 files as float32, since its own int8 rounds more than them.
    """
    how, search = KINDS[name]
    decoder = DECODER.format(*search)
    models = models[:1] if how.get("tied", "all") == "all" else models
    tensors, config = write(folder, list(KINDS).index(name), models, decoder=decoder, **how)
    file = folder / how.get("file", "model.npz")
    tensors = {name: np.asarray(values) for name, values in read_marian(file)[0].items()}
    engine = folder / "engine"  # No suffix of a model: the folder holds one.
    write_bin(engine, tensors, config)
    return job_of(folder, engine)


def job_of(folder, model=None):
    """The engine's job of a folder, but for the texts."""
    vocabularies = sorted(str(path) for path in folder.glob("*.spm"))
    given = (folder / "decoder.yml").read_text().splitlines()
    others = "models", "vocabs", "gemm-precision"
    decoder = [line for line in given if line.partition(":")[0] not in others]
    engine = [
        "gemm-precision: float32", "ssplit-mode: sentence", "max-length-break: 128",
        "mini-batch-words: 1024", "workspace: 128", "quiet: true", "quiet-translation: true",
        "skip-cost: false", "cpu-threads: 0", "alignment: soft",
    ]  # fmt: skip
    files = [f"  - {path}" for path in (vocabularies * 2)[:2]]
    lines = [*decoder, "vocabs:", *files, *engine]
    job = {"model": str(model or folder / "model.bin"), "vocabs": vocabularies}
    return job | {"config": "\n".join(lines) + "\n"}


def install_engine(folder):
    """Installs the engine, a package of npm, into a folder; returns the package's folder."""
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), ENGINE]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return folder / "node_modules" / ENGINE.rpartition("@")[0]


def by_the_engine(package, jobs, folder):
    """The engine's translations: a list for each job."""
    file = folder / "jobs.json"
    file.write_text(json.dumps(jobs))
    command = ["node", str(HERE / "marian_engine.cjs"), str(package), str(file)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200)
    return [[text.strip() for text in texts] for texts in json.loads(run.stdout)]


def sources(count):
    return list(dict.fromkeys(source for source, _ in phrasebook.pairs("test")))[:count]


def golden_models():
    """The vocabularies of the golden translations: source and target."""
    return [(GOLDEN / f"{side}.spm").read_bytes() for side in ("source", "target")]


def make_golden(count=10):
    rows = list(phrasebook.pairs("train"))[:3000]
    GOLDEN.mkdir(exist_ok=True)
    for side, texts in zip(("source", "target"), zip(*rows, strict=True), strict=True):
        size = {"source": 260, "target": 230}[side]
        (GOLDEN / f"{side}.spm").write_bytes(vocabulary(texts, size, "identity"))
    with tempfile.TemporaryDirectory() as temporary:
        folder, texts = Path(temporary), sources(count)
        package, models = install_engine(folder), golden_models()
        jobs = [
            write_kind(name, folder / str(i), models) | {"texts": texts}
            for i, name in enumerate(KINDS)
        ]
        found = by_the_engine(package, jobs, folder)
    golden = {"sources": texts, **dict(zip(KINDS, found, strict=True))}
    text = json.dumps(golden, ensure_ascii=False, indent=1) + "\n"
    (GOLDEN / "golden.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    make_golden()
