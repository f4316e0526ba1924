"""Marian's own files: what they translate to, held to Marian itself, and what is refused."""

import gzip
import json
import shutil
import subprocess

import marian_models as marian
import numpy as np
import pytest
import sentencepiece
from command import keras_mt
from runs import assert_same_weights

from keras_mt import Transformer, Translator
from keras_mt.convert import from_marian, import_model
from keras_mt.convert.marian import to_marian
from keras_mt.convert.marian_files import read_marian
from keras_mt.convert.marian_reader import has_model
from keras_mt.models import ensure_built

LONG = ["self-attention, bin int8, greedy", "nothing tied, no bias"]
EXHAUSTIVE = [name for name in marian.KINDS if name not in LONG]


@pytest.fixture(scope="module")
def golden():
    return json.loads((marian.GOLDEN / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def models():
    return marian.golden_models()


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.long) for name in LONG),
        *(pytest.param(n, marks=[pytest.mark.long, pytest.mark.exhaustive]) for n in EXHAUSTIVE),
    ],
)
def test_it_translates_as_marian_did(name, golden, models, tmp_path):
    marian.write_kind(name, tmp_path / "folder", models)
    assert from_marian(tmp_path / "folder")(golden["sources"]) == golden[name]


@pytest.mark.long
@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("npm") is None, reason="Marian comes from npm")
def test_three_hundred_sentences_as_marian_now(load, tmp_path):
    try:
        package = marian.install_engine(tmp_path / "npm")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm has no {marian.ENGINE}: {error.stderr[-200:]}")
    rows, sources = list(marian.phrasebook.pairs("train"))[:3000], marian.sources(300)
    models = [marian.vocabulary(texts, 300) for texts in zip(*rows, strict=True)]
    jobs = [
        marian.write_kind(name, tmp_path / str(i), models) | {"texts": sources}
        for i, name in enumerate(marian.KINDS)
    ]
    written = [written_kind(load().tokenizer, seed, **how) for seed, how in enumerate(WRITTEN)]
    for i, translator in enumerate(written):
        to_marian(translator, folder := tmp_path / f"written{i}")
        jobs.append(marian.job_of(folder) | {"texts": sources})
    found = marian.by_the_engine(package, jobs, tmp_path)
    read = [from_marian(tmp_path / str(i)) for i in range(len(marian.KINDS))]
    names, same = [*marian.KINDS, *map(str, WRITTEN)], {}
    for name, translator, expected in zip(names, read + written, found, strict=True):
        assert len(set(expected)) > 30, name
        ours = [text.strip() for text in translator(sources)]
        same[name] = sum(a == b for a, b in zip(ours, expected, strict=True))
    print(same)
    assert min(same.values()) >= 294, same


def test_the_command_imports_it_and_it_translates_as_marian_did(golden, models, tmp_path):
    name, run = "ssru, npz, beam 4", tmp_path / "run"
    marian.write_kind(name, tmp_path / "folder", models)
    for path in [*(tmp_path / "folder").iterdir()]:
        if path.suffix in (".npz", ".spm"):  # As Firefox's are.
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    keras_mt("import", tmp_path / "folder", run)
    translator = Translator.load(run)
    assert translator(golden["sources"]) == golden[name]
    options = translator.options
    assert (options.beam_size, options.length_penalty, options.word_penalty) == (4, 0.8, -0.3)
    assert options.early_stopping == "shrink" and not options.split_sentences


def test_defaults_are_marians_without_a_decoders_configuration(models, tmp_path):
    marian.write(tmp_path / "folder", 1, models[:1], True)
    options = from_marian(tmp_path / "folder").options
    assert (options.beam_size, options.length_penalty, options.word_penalty) == (12, 0, 0)


def test_half_precision_stays_half_precision(models, tmp_path):
    folders = [tmp_path / name for name in ("half", "single")]
    for folder in folders:
        tensors, config = marian.write(folder, 1, models[:1], True)
        dtype = "float16" if folder.name == "half" else "float32"
        tensors = {name: x.astype("float16").astype(dtype) for name, x in tensors.items()}
        marian.write_npz(folder / "model.npz", tensors, config)
    assert_same_weights(*(from_marian(folder).models[0] for folder in folders))
    import_model(folders[0], tmp_path / "run")
    stored = Translator.load(tmp_path / "run", dtype=None).models[0]
    assert {weight.dtype for weight in stored.weights} == {"float16"}


def test_a_yaml_vocabulary_gives_the_ids(golden, models, tmp_path):
    """As in Tatoeba's zips: their order is another, and the matrices' rows go with them."""
    folder = tmp_path / "folder"
    marian.write_kind("self-attention, npz, greedy", folder, models)
    before, (model, _) = from_marian(folder), models
    (folder / "vocab.spm").unlink()
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    order = [0, 1, *(2 + np.random.default_rng(0).permutation(len(pieces) - 2)).tolist()]
    lines = [f"{json.dumps(pieces[old])}: {new}\n" for new, old in enumerate(order)]
    (folder / "opus.vocab.yml").write_text("".join(lines))
    tensors = dict(np.load(folder / "model.npz"))
    tensors["Wemb"] = tensors["Wemb"][order]
    tensors["decoder_ff_logit_out_b"] = tensors["decoder_ff_logit_out_b"][:, order]
    np.savez(folder / "model.npz", **tensors)
    after = from_marian(folder)
    ids = [
        each.tokenizer.source_ids(each.tokenizer.pieces(golden["sources"])).to_tensor(len(pieces))
        for each in (before, after)
    ]
    order = np.array([*order, len(pieces)])
    np.testing.assert_array_equal(order[ids[1]], ids[0])
    logits = [
        each.models[0]({"source": x, "target": x}).numpy()
        for each, x in zip((before, after), ids, strict=True)
    ]
    np.testing.assert_allclose(logits[1], logits[0][..., order], atol=1e-4)
    (folder / "opus.vocab.yml").write_text("".join(lines[:-1]))
    with pytest.raises(ValueError, match=rf"vocab.yml must have {len(lines)} pieces"):
        from_marian(folder)


@pytest.mark.parametrize("version", ["v1.12.0", "", "2.0.0"])
def test_which_gelu_it_is_must_be_certain(version, models, tmp_path):
    tensors, config = marian.write(tmp_path / "folder", 1, models[:1], True, activation="gelu")
    config = config.replace("v1.9.56", version)
    marian.write_npz(tmp_path / "folder" / "model.npz", tensors, config)
    with pytest.raises(ValueError, match=r"activation must be .* unless version is below v1\.12"):
        from_marian(tmp_path / "folder")


@pytest.mark.parametrize(
    ("before", "after", "match"),
    [
        ("type: transformer", "type: s2s", "model.npz: type must be 'transformer'"),
        ("dec-cell: ssru", "dec-cell: gru", "dec-cell must be 'ssru'"),
        ("-activation: relu", "-activation: tanh", "transformer-ffn-activation must be"),
        ('preprocess: ""', "preprocess: n", "transformer-preprocess must be"),
        ("version", "transformer-tied-layers: [1, 1]\nversion", "transformer-tied-layers must be"),
        ("version", "lemma-dim-emb: 8\nversion", "lemma-dim-emb must be left out"),
        ("enc-depth: 2", "enc-depth: 3", "have no encoder_l3_ffn_W2"),
        ("enc-depth: 2", "enc-depth: -1", "enc-depth must be an integer, at least 1"),
        ("heads: 4", "heads: 5", "num_heads"),
        ("dim-ffn: 48", "dim-ffn: 49", "ffn_W2 must have the shape"),
        ("dim-emb: 32", "dim-emb: 64", "Wemb must have the shape"),
        ("dim-emb: 32", "dim-emb: [32]", "dim-emb must be an integer"),
        ("version", "a: &a [1]\nb: *a\nversion", "without aliases"),
        ("version", f"a: {'[' * 9999}{']' * 9999}\nversion", "by their names, not deep"),
        ("version", "2024-99-99: 2024-99-99\nversion", "is not YAML"),
        ("version", "a: [\nversion", "is not YAML"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused(before, after, match, models, tmp_path):
    _, config = marian.write(tmp_path / "folder", 1, models[:1], True)
    assert before in config
    path = tmp_path / "folder" / "model.npz"
    tensors = dict(np.load(path))
    text = config.replace(before, after).encode() + b"\0"
    tensors["special:model.yml"] = np.frombuffer(text, np.int8)
    np.savez(path, **tensors)
    with pytest.raises(ValueError, match=match) as error:
        from_marian(tmp_path / "folder")
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("beam-size: 0", "decoder.yml: beam-size"),
        ("beam-size: four", "decoder.yml: beam-size"),
        ("normalize: -1", "decoder.yml: normalize"),
        ("word-penalty: .nan", "decoder.yml: word-penalty"),
        ("max-length-factor: 0", "decoder.yml: max-length-factor"),
        ("allow-unk: 3", "decoder.yml: allow-unk must be true or false"),
        ("skip-cost: true", "decoder.yml: skip-cost must be false, or beam-size 1"),
        ("output-sampling: [full]", "decoder.yml: output-sampling must be left out"),
        ("models: [a.npz, b.npz]", "decoder.yml: models must be one"),
        ("- a", "decoder.yml must hold fields by their names"),
    ],
)
def test_a_search_that_is_not_understood_is_refused(text, match, models, tmp_path):
    marian.write(tmp_path / "folder", 1, models[:1], True, decoder=text)
    with pytest.raises(ValueError, match=match):
        from_marian(tmp_path / "folder")


def test_vocabularies_that_do_not_fit_are_refused(models, tmp_path):
    folder = tmp_path / "folder"
    marian.write(folder, 1, models[:1], True)
    (folder / "vocab.spm").write_bytes(models[1])
    with pytest.raises(ValueError, match=r"vocab\.spm must have \d+ pieces, as the embedding"):
        from_marian(folder)
    (folder / "other.spm").write_bytes(models[0])
    with pytest.raises(ValueError, match=r"must have one \*\.spm"):
        from_marian(folder)
    (folder / "model.bin").write_bytes((1).to_bytes(8, "little") * 4)
    with pytest.raises(ValueError, match=r"must have one model.*model\.bin, model\.npz"):
        from_marian(folder)


def test_what_is_packed_too_tightly_is_refused(models, tmp_path):
    folder = tmp_path / "folder"
    marian.write(folder, 1, models[:1], True)
    bomb = gzip.compress((folder / "model.npz").read_bytes() + bytes(2**26))
    (folder / "model.npz").unlink()
    (folder / "model.npz.gz").write_bytes(bomb)
    with pytest.raises(ValueError, match=r"npz\.gz holds more than [0-9]+ bytes"):
        from_marian(folder)


def test_folders_of_others_are_left_to_them(tmp_path):
    assert not has_model(tmp_path)
    # A shortlist of Marian's, which is not read.
    (tmp_path / "lex.s2t.bin").write_bytes(0xF11A48D5013417F5.to_bytes(8, "little"))
    assert not has_model(tmp_path)
    (tmp_path / "model.npz").write_bytes(b"PK\3\4")
    assert has_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert not has_model(tmp_path)


def test_int8_is_near_float32_and_every_other_row_is_as_it_was(models, tmp_path):
    tensors, _ = marian.write(tmp_path / "a", 1, models, False, file="model.bin", int8=True)
    found, fields = read_marian(tmp_path / "a" / "model.bin")
    assert fields["type"] == "transformer" and found.keys() == tensors.keys()
    for name, values in tensors.items():
        step = np.abs(values).max() / 127 if min(values.shape) > 1 else 0
        np.testing.assert_allclose(found[name], values, atol=step / 2 + 1e-7)


def written_kind(tokenizer, seed=0, **options):
    """A translator that Marian can have, with weights that make unlike translations."""
    sizes = {"num_layers": 2, "d_model": 64, "num_heads": 4, "d_ff": 128, "max_length": 128}
    model = ensure_built(
        Transformer(
            tokenizer.vocab_size, **sizes, positions="tensor2tensor", zero_id=2,
            norm_epsilon=1e-6, **options,
        )
    )  # fmt: skip
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" not in weight.path:
            is_kernel = weight.path.endswith("kernel")
            scale = 2.5 * weight.shape[0] ** -0.5 if is_kernel else 0.3
            mean = weight.path.endswith("gamma")
            weight.assign(mean + scale * random.normal(size=weight.shape))
    search = {"beam_size": 4, "length_penalty": 0.7, "word_penalty": 0.2}
    search |= {"early_stopping": "shrink", "max_length_factor": 1.5, "split_sentences": False}
    return Translator(model, tokenizer, **search)


WRITTEN = [
    {"decoder_sublayers": "rcf" * 3},
    {"tie_output": False, "logits_bias": True},
    {"share_embeddings": False, "activation": "silu", "num_decoder_layers": 1},
]


@pytest.mark.parametrize("options", WRITTEN)
def test_what_is_written_is_what_it_was(options, load, golden, tmp_path):
    before = written_kind(load().tokenizer, **options)
    to_marian(before, tmp_path / "folder")
    after = from_marian(tmp_path / "folder")
    assert after.options == before.options
    assert after.options.max_length_factor == before.options.max_length_factor
    # Ids are others: the padding is the last here, and the end the first.
    ids = [
        each.tokenizer.source_ids(each.tokenizer.pieces(golden["sources"]))
        for each in (before, after)
    ]
    logits = []
    for each, rows in zip((before, after), ids, strict=True):
        source = rows.to_tensor(each.tokenizer.padding_id).numpy()
        target = np.pad(source, ((0, 0), (1, 0)), constant_values=each.tokenizer.bos_id)
        found = each.models[0]({"source": source, "target": target}).numpy()
        logits.append(found[np.arange(len(found)), rows.row_lengths() - 1])
    order = [3, 1, *range(4, before.tokenizer.vocab_size)]
    np.testing.assert_allclose(logits[1][:, :-1], logits[0][:, order], atol=1e-4)
    # What is imported is written as it was.
    to_marian(after, tmp_path / "again")
    assert has_model(tmp_path / "again")
    for path in (tmp_path / "folder").iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pre_norm": True}, "pre_norm=True.*--set pre_norm=false"),
        ({"activation": "gelu"}, "activation='gelu'.*--set activation=relu"),
        ({"decoder_sublayers": "srcf" * 2}, "decoder_sublayers='srcfsrcf'"),
        ({"num_decoder_heads": 2}, "num_decoder_heads=2"),
        ({"gated": True}, "no model with gated=True"),
    ],
)
def test_what_marian_does_not_have_is_not_written(options, match, load, tmp_path):
    with pytest.raises(ValueError, match=match):
        to_marian(written_kind(load().tokenizer, **options), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_run_that_was_not_trained_for_marian_is_told_how_to_train_one(load, tmp_path):
    translator = load()
    with pytest.raises(ValueError, match="zero_id=None and positions='sinusoidal'") as error:
        to_marian(translator, tmp_path / "folder")
    assert str(error.value).endswith("--set zero_id=2 --set positions=tensor2tensor.")
    sizes = {"num_layers": 1, "d_model": 32, "num_heads": 4, "d_ff": 48, "max_length": 64}
    settings = {"zero_id": 2, "positions": "tensor2tensor"}
    model = Transformer(translator.tokenizer.vocab_size, **sizes, **settings)
    to_marian(Translator(model, translator.tokenizer), tmp_path / "folder")
    assert has_model(tmp_path / "folder")


def test_int8_adds_pieces_until_they_are_a_multiple_of_eight(load, golden, tmp_path):
    before = written_kind(load().tokenizer)
    to_marian(before, tmp_path / "folder", quantization="int8")
    tensors, fields = read_marian(tmp_path / "folder" / "model.bin")
    assert fields["dim-vocabs"][0] % 8 == 0
    assert tensors["Wemb"].shape[0] == fields["dim-vocabs"][0]
    after = from_marian(tmp_path / "folder").tokenizer
    for tokenizer in (before.tokenizer, after):
        pieces = tokenizer.pieces(golden["sources"])
        assert tokenizer.text(pieces).numpy().tolist() == [s.encode() for s in golden["sources"]]
