"""Folders of transformers' models: what they hold, and that they do what transformers does.

golden/make_folders.py made them and the figures.
"""

import dataclasses
import functools
import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from runs import assert_same_weights
from safetensors.numpy import save_file

from keras_mt import Translator
from keras_mt.convert import families, from_huggingface, import_model
from keras_mt.convert import weights as weights_module
from keras_mt.convert.ctranslate2 import to_ctranslate2
from keras_mt.convert.folder import SEARCH, Folder, GenerationConfig, TokenizerConfig
from keras_mt.convert.huggingface import to_huggingface
from keras_mt.convert.weights import read_weights
from keras_mt.run_folder import RunFolder

NAMES = (
    "marian",
    "marian_marks",
    "marian_apart",
    "marian_normalized",
    "m2m_100",
    "nllb",
    "nllb_legacy",
    "small100",
    "t5",
    "mt5",
    "madlad",
)
CODES = {"m2m_100": ("pt", "en"), "small100": ("pt", "en"), "nllb": ("por_Latn", "eng_Latn")}
EXHAUSTIVE = pytest.mark.exhaustive
every_folder = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def imported(golden):
    return functools.cache(lambda name: from_huggingface(golden / name))


@pytest.fixture
def copied(golden, tmp_path):
    """A function that copies a folder, with other fields in one of its files."""

    def copy(name, file=None, **fields):
        folder = tmp_path / name
        shutil.copytree(golden / name, folder)
        if file is not None:
            values = json.loads((folder / file).read_text()) | fields
            (folder / file).write_text(json.dumps(values))
        return folder

    return copy


@pytest.fixture
def with_model_of(imported, monkeypatch):
    """A function after which models are not made anew: that of an unchanged folder is taken."""

    def take(name):
        model = imported(name).models[0]
        monkeypatch.setattr(weights_module.Weights, "transformer", lambda *_: model)

    return take


def found_by_transformers(golden, name):
    with np.load(golden / f"{name}.npz") as arrays:
        return {key: arrays[key] for key in arrays}


def rows(array):
    return [[int(i) for i in row if i >= 0] for row in array]


def texts(golden, name):
    """The sources, and the languages of each."""
    pairs = json.loads((golden / "texts.json").read_text())["pairs"]
    codes = CODES.get(name.removesuffix("_legacy"))
    if name == "madlad":
        sides = "source_language", "target_language"
        return [pair[0] for pair in pairs], {side: ["en"] * len(pairs) for side in sides}
    if codes is None:
        marks = (">>eng<< ", ">>por<< ", "") if name == "marian_marks" else ("",)
        return [marks[i % len(marks)] + pair[0] for i, pair in enumerate(pairs)], {}
    return [pair[i % 2] for i, pair in enumerate(pairs)], {
        "source_language": [codes[i % 2] for i in range(len(pairs))],
        "target_language": [codes[1 - i % 2] for i in range(len(pairs))],
    }


@every_folder
def test_ids_are_those_of_sentencepiece_and_the_table(golden, imported, name):
    tokenizer, expected = imported(name).tokenizer, rows(found_by_transformers(golden, name)["ids"])
    sources, languages = texts(golden, name)
    hostile = json.loads((golden / "texts.json").read_text())["hostile"]
    languages = {n: codes + [codes[0]] * len(hostile) for n, codes in languages.items()}
    codes = [tf.constant(each) for each in languages.values()]
    if name == "madlad":  # transformers was given these without the language.
        expected[-len(hostile) :] = [expected[0][:2] + row for row in expected[-len(hostile) :]]
    found = tokenizer.source_ids(tokenizer.pieces(tf.constant(sources + hostile)), *codes)
    assert found.to_list() == expected


@every_folder
def test_logits_are_those_of_transformers(golden, imported, name):
    expected = found_by_transformers(golden, name)
    model = imported(name).models[0]
    source = tf.ragged.constant(rows(expected["ids"][:4])).to_tensor(model.padding_id)
    logits = model({"source": source.numpy(), "target": expected["targets"].astype("int32")})
    np.testing.assert_allclose(logits[..., ::8], expected["logits"], atol=1e-4)


def check_search(translator, golden, name, how, number):
    sources, languages = texts(golden, name)
    expected = found_by_transformers(golden, name)
    languages = {side: codes[:number] for side, codes in languages.items()}
    found = translator.hypotheses(sources[:number], token_scores=True, **languages)
    to_string = translator.tokenizer.id_to_string
    for (best, *_), row, score in zip(
        found, rows(expected[f"tokens/{how}"]), expected[f"scores/{how}"], strict=False
    ):
        pieces = to_string(tf.constant(row, tf.int32)).numpy()
        assert [piece for piece, _ in best.tokens] == [piece.decode() for piece in pieces]
        if how != "greedy":
            assert abs(best.score - score) < 1e-4
    return found


@pytest.mark.parametrize("name", ["marian_marks", pytest.param("nllb", marks=pytest.mark.long)])
def test_it_decodes_as_its_generation_config_says(eager, golden, imported, name):
    check_search(imported(name), golden, name, "own", 6)


def test_a_mark_holds_for_all_sentences_of_a_line(eager, imported):
    marked = imported("marian_marks")
    options = {"beam_size": 1, "max_length": 6, "split_sentences": True}
    translator = Translator(marked.models[0], marked.tokenizer, **options)
    first, second, plain = translator([">>por<< O livro.", ">>por<< O gato.", "O gato."])
    assert second != plain
    assert translator(">>por<< O livro. O gato.") == f"{first} {second}"


@pytest.mark.long
@pytest.mark.exhaustive
@every_folder
def test_all_translations_are_those_of_transformers(
    eager, golden, name, tmp_path, signatures_alone
):
    number = 300
    run = tmp_path / "run"
    import_model(golden / name, run)
    for how, options in {
        "greedy": {"beam_size": 1},
        "never": {"early_stopping": "never"},
        "own": {},
    }.items():
        if how == "greedy" and name == "marian_normalized":
            continue  # With one beam transformers penalizes repetitions by logits.
        translator = Translator.load(run, **options)
        found = check_search(translator, golden, name, how, number)
    # Of plain TensorFlow, in batches of its own.
    signatures_alone("serving_default")
    translator.export(tmp_path / "exported" / "1")
    exported = tf.saved_model.load(str(tmp_path / "exported" / "1"))
    sources, languages = texts(golden, name)
    for i in range(0, number, 30):
        part = slice(i, min(i + 30, number))
        some = {n: tf.constant(x[part]) for n, x in {"text": sources, **languages}.items()}
        outputs = exported.signatures["serving_default"](**some)
        for (best, *_), text, score in zip(
            found[part], outputs["translations"], outputs["scores"], strict=True
        ):
            assert text[0].numpy().decode() == best.text
            assert abs(float(score[0]) - best.score) < 1e-4


@pytest.mark.parametrize(
    "name", ["marian", pytest.param("m2m_100", marks=[pytest.mark.long, EXHAUSTIVE])]
)
def test_the_command_writes_a_run_folder(golden, name, tmp_path):
    run = tmp_path / "run"
    keras_mt("import", golden / name, run)
    assert sorted(path.name for path in run.iterdir()) == [
        "config.json",
        "model.keras",
        "tokenizer",
    ]
    assert {w.dtype for w in RunFolder(run).load_model().weights} == {"float16"}
    before = from_huggingface(golden / name)
    loaded = Translator.load(run)
    assert loaded.options == before.options
    assert loaded.tokenizer.fingerprint == before.tokenizer.fingerprint
    half = Translator.load(run, dtype=None).models[0]
    assert half.compute_dtype == "float16"
    for model, dtype in ((loaded.models[0], "float32"), (half, "float16")):
        assert {weight.dtype for weight in model.weights} == {dtype}
        assert_same_weights(model, before.models[0])
    assert "exists" in keras_mt("import", golden / name, run, exit_code=1).stderr


@pytest.mark.long
def test_the_languages_of_an_import_are_those_of_every_command(golden, corpus, tmp_path):
    run = RunFolder(tmp_path / "run")
    import_model(golden / "nllb", run.path)
    languages = {"source_language": "por_Latn", "target_language": "eng_Latn"}
    values = json.loads((run.path / "config.json").read_text())
    assert (
        languages.items() <= values.items() and not languages.keys() & values["generation"].keys()
    )
    assert run.config.languages == languages
    assert not languages.keys() & run.config.generation.keys()
    data = ["--data", corpus, "--source", "pt", "--target", "en"]
    keras_mt("shortlist", run.path, tmp_path / "list", *data)


def test_tf_model_h5_alone_is_refused_with_what_to_do(copied):
    folder = copied("marian")
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    with pytest.raises(FileNotFoundError, match=r"pytorch_model\.bin\..*from_tf=True"):
        from_huggingface(folder)


def test_config_json_says_how_to_decode_where_there_is_no_file_of_its_own(copied, with_model_of):
    with_model_of("marian")
    folder = copied("marian", "config.json", num_beams=7, max_length=30)
    assert from_huggingface(folder).options.beam_size == 4
    (folder / "generation_config.json").unlink()
    translator = from_huggingface(folder)
    assert (translator.options.beam_size, translator.options.max_length) == (7, 29)


@pytest.mark.parametrize(
    "file, fields, message",
    [
        ("config.json", {"model_type": "bart"}, "model_type"),
        ("config.json", {"d_model": 32}, r"shape \(806, 32\), to agree with the config"),
        ("config.json", {"vocab_size": 10**12}, "vocab_size"),
        ("config.json", {"vocab_size": 10**9}, r"shape \(1000000000, 64\)"),
        ("config.json", {"decoder_ffn_dim": 10**9}, "decoder.layers.1.fc2.weight must have"),
        ("config.json", {"encoder_layers": 10**9}, "have no encoder.layers.999999999.fc2.weight"),
        ("config.json", {"encoder_layers": 1}, "not understood: encoder.layers.1"),
        ("config.json", {"max_position_embeddings": 10**12}, "max_position_embeddings"),
        ("config.json", {"activation_function": "gelu_new"}, "activation_function"),
        ("config.json", {"encoder_attention_heads": 5}, "num_heads"),
        ("config.json", {"normalize_before": True}, "normalize_before"),
        ("config.json", {"scale_embedding": "yes"}, "scale_embedding"),
        ("generation_config.json", {"do_sample": True}, "do_sample"),
        ("generation_config.json", {"bad_words_ids": [[1, 2]]}, "bad_words_ids"),
        ("generation_config.json", {"eos_token_id": [0, 5]}, "eos_token_id"),
        ("generation_config.json", {"bad_words_ids": [[806]]}, "bad_words_ids"),
        ("generation_config.json", {"suppress_tokens": [-1]}, "suppress_tokens"),
        ("generation_config.json", {"min_length": 40}, "min_length must be at most 39"),
        ("vocab.json", {"▁x": 10**9}, "vocab_size"),
        ("vocab.json", {"▁x": "1"}, "vocab.json"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(
    copied, with_model_of, file, fields, message
):
    folder = copied("marian", file, **fields)
    if file != "config.json":
        with_model_of("marian")
    with pytest.raises(ValueError, match=message):
        from_huggingface(folder)


@pytest.mark.parametrize(
    "fields, names",
    [
        ({"repetition_penalty": 0.9}, "repetition_penalty"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_beams, num_return_sequences"),
        ({"early_stopping": "soon"}, "early_stopping"),
        ({"renormalize_logits": "x"}, "renormalize_logits"),
    ],
)
def test_options_that_no_search_takes_are_refused_by_file_and_field(
    copied, with_model_of, fields, names
):
    with_model_of("marian")
    folder = copied("marian", "generation_config.json", **fields)
    with pytest.raises(ValueError, match=f"generation_config.json: {names}(:| must)"):
        import_model(folder, folder / "run")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("field", ["decoder_start_token_id", "eos_token_id", "forced_bos_token_id"])
@pytest.mark.parametrize("name, size", [("marian", 806), ("m2m_100", 700)])
def test_a_special_id_outside_of_the_vocabulary_is_refused(
    copied, with_model_of, name, size, field
):
    with_model_of(name)
    folder = copied(name, "generation_config.json", **{field: size})
    with pytest.raises(ValueError, match=f"generation_config.json: {field} .* below {size}"):
        from_huggingface(folder)


def test_the_padding_is_in_the_target_vocabulary(copied):
    folder = copied("marian_apart", "config.json", pad_token_id=450)
    with pytest.raises(ValueError, match="pad_token_id must be a token id, below 450"):
        from_huggingface(folder)


FIELDS = {
    "config.json": [
        "model_type", *(field.name for field in dataclasses.fields(families.Bart)),
        "normalize_before",
    ],
    "generation_config.json": [
        *SEARCH, *(field.name for field in dataclasses.fields(GenerationConfig)),
        "num_beam_groups", "begin_suppress_tokens", "forced_decoder_ids",
    ],
    "tokenizer_config.json": [field.name for field in dataclasses.fields(TokenizerConfig)],
}  # fmt: skip
WRONG = (True, -1, 1.5, "x", [], [806], {"1": 2})


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "file"),  # NLLB's other files are read as M2M-100's.
    [
        *itertools.product(["marian"], FIELDS),
        ("nllb", "tokenizer_config.json"),
        *(pytest.param("m2m_100", file, marks=EXHAUSTIVE) for file in FIELDS),
    ],
)
def test_a_field_of_another_type_is_refused_or_does_no_harm(copied, with_model_of, name, file):
    folder = copied(name)
    if file != "config.json":
        with_model_of(name)
    values, refused = json.loads((folder / file).read_text()), 0
    for field in FIELDS[file]:
        for value in WRONG:
            (folder / file).write_text(json.dumps(values | {field: value}))
            try:
                from_huggingface(folder)
            except ValueError as error:
                assert file in str(error) or field in str(error), (field, value)
                refused += 1
    assert refused > 3 * len(FIELDS[file])


def test_sizes_are_checked_before_the_model_is_built(copied, monkeypatch):
    folder = copied("marian", "config.json", decoder_ffn_dim=500_000)

    def build(*args, **kwargs):
        raise AssertionError("The model is built.")

    monkeypatch.setattr(weights_module, "Transformer", build)
    with pytest.raises(ValueError, match=r"decoder.layers.1.fc2.weight must have the shape"):
        from_huggingface(folder)


def test_a_weight_of_another_shape_is_refused_by_its_name(copied):
    folder = copied("marian")
    weights = {name: np.asarray(x, "float32") for name, x in read_weights(folder).items()}
    for tensor, shape in (
        ("decoder.layers.1.fc2.weight", [64, 127]),
        ("encoder.layers.1.final_layer_norm.bias", [65]),
    ):
        save_file(weights | {tensor: np.zeros(shape, "float32")}, folder / "model.safetensors")
        with pytest.raises(ValueError, match=f"{tensor} must have the shape"):
            from_huggingface(folder)


@pytest.mark.parametrize("tensor", ["lm_head", "model.encoder.embed_tokens"])
def test_what_the_file_has_twice_with_other_values_is_not_tied(tensor, copied):
    """As transformers 5 reads it, whatever config.json says: its issue 45005."""
    folder = copied("marian")
    tied = from_huggingface(folder).models[0]
    weights = {name: np.asarray(x, "float32") for name, x in read_weights(folder).items()}
    same = {"lm_head", "encoder.embed_tokens", "decoder.embed_tokens"}
    assert not any((weights.get(f"{n}.weight", shared) != shared).any() for n in same
                   for shared in [weights["shared.weight"]])  # fmt: skip
    short = tensor.removeprefix("model.")
    weights[f"{short}.weight"] = 2 * weights["shared.weight"]
    save_file(weights, folder / "model.safetensors")
    model = from_huggingface(folder).models[0]
    inputs = {"source": np.array([[5, 6, 0]]), "target": np.array([[805, 7, 8]])}
    bias = weights["final_logits_bias"]
    if tensor == "lm_head":
        np.testing.assert_allclose(model(inputs) - bias, 2 * (tied(inputs) - bias), atol=1e-3)
    else:
        embedding = model.source_embedding.embedding.embeddings
        np.testing.assert_array_equal(embedding, weights[f"{short}.weight"])
        embedding = model.target_embedding.embedding.embeddings
        np.testing.assert_array_equal(embedding, weights["shared.weight"])
    assert tied.count_params() < model.count_params()


@pytest.mark.parametrize(
    "name, file",
    [
        ("marian", "config.json"),
        ("marian", "source.spm"),
        ("marian", "model.safetensors"),
        ("nllb", "sentencepiece.bpe.model"),
    ],
)
def test_a_missing_file_is_named(copied, name, file):
    folder = copied(name)
    (folder / file).unlink()
    with pytest.raises(FileNotFoundError, match=file):
        from_huggingface(folder)


@pytest.mark.long
def test_small100_takes_the_targets_language_alone(eager, imported, copied):
    translator, texts = imported("small100").with_options(max_length=6), ["Um livro.", "O gato."]
    found = [translator(texts, target_language=code) for code in ("pt", "en")]
    assert found[0] != found[1]
    assert translator(texts, source_language="de", target_language="en") == found[1]
    with pytest.raises(ValueError, match="target_language must be given"):
        copied_translator = from_huggingface(
            copied("small100", "tokenizer_config.json", tgt_lang=None)
        )
        copied_translator(texts)


def test_madlad_takes_the_targets_language_alone(imported):
    translator = imported("madlad")
    assert translator.languages == ("en", "pt")
    tokenizer, texts = translator.tokenizer, tf.constant(["Um livro."] * 2)
    ids = tokenizer.source_ids(tokenizer.pieces(texts), texts, tf.constant(["en", "pt"]))
    pieces = tokenizer.source_id_to_string(ids[:, :2]).numpy().tolist()
    assert pieces == [["▁".encode(), b"<2en>"], ["▁".encode(), b"<2pt>"]]
    with pytest.raises(ValueError, match="target_language must be given"):
        translator(["Um livro."])


@pytest.mark.parametrize(
    ("layers", "generation", "small"),
    [((12, 3), {}, True), ((12, 12), {}, False), ((12, 3), {"forced_bos_token_id": 9}, False)],
)
def test_without_a_name_the_layers_tell_small100(layers, generation, small, golden, tmp_path):
    config = {"encoder_layers": layers[0], "decoder_layers": layers[1]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert families.is_small100(Folder(tmp_path)) is small
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "SMALL100Tokenizer"}')
    assert families.is_small100(Folder(tmp_path))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"feed_forward_proj": "gated-swish"}, "feed_forward_proj must be 'relu' or "),
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets must be 32"),
        ({"num_layers": 3}, "have no encoder.block.2"),
        ({"num_decoder_layers": 10**9}, "have no decoder.block.999999999"),
        ({"d_kv": 13}, "SelfAttention.q.weight must have the shape"),
        ({"d_kv": 6, "num_heads": 6}, "relative_attention_bias.weight must have the shape"),
        ({"d_ff": 10**9}, "DenseReluDense.wo.weight must have the shape"),
        ({"vocab_size": 10**9}, "shared.weight must have the shape"),
        ({"pad_token_id": 607}, "pad_token_id must be a token id"),
        ({"d_model": 31}, "must have the shape"),
        ({"dropout_rate": "x"}, "dropout_rate must be a number"),
    ],
)
def test_what_t5_does_not_have_is_refused_by_its_name(fields, message, copied):
    with pytest.raises(ValueError, match=message):
        from_huggingface(copied("t5", "config.json", **fields))


def test_t5_never_computes_in_float16(copied, imported, tmp_path):
    folder = copied("t5")
    weights = {n: np.asarray(x, "float16") for n, x in read_weights(folder).items()}
    save_file(weights, folder / "model.safetensors")
    import_model(folder, tmp_path / "run")
    assert {w.dtype for w in RunFolder(tmp_path / "run").load_model().weights} == {"float32"}
    with pytest.raises(ValueError, match="dtype must be float32 or bfloat16 for T5"):
        imported("t5").export(tmp_path / "1", dtype="float16")


@pytest.mark.long  # It needs CTranslate2.
def test_what_t5_has_no_other_format_has(imported, tmp_path):
    for write, message in ((to_huggingface, "--set norm=layer"), (to_ctranslate2, "norm='rms'")):
        with pytest.raises(ValueError, match=message):
            write(imported("mt5"), tmp_path / "out")
