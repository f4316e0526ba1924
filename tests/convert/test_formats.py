"""The table of formats: each entry has its file, and says what it refuses."""

import dataclasses
import importlib

import pytest
from test_marian import written_kind

from keras_mt import Translator
from keras_mt.convert import to_huggingface, to_marian
from keras_mt.convert.formats import FORMATS, ExportOptions, check_options

# An option of the search each, with those that it needs.
SEARCH = (
    {"beam_size": 3},
    {"n_best": 2},
    {"length_penalty": 0.5},
    {"word_penalty": 0.1},
    {"min_length": 2},
    {"early_stopping": True},
    {"patience": 2.0, "early_stopping": True},
    {"force_end": True},
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 3},
    {"renormalize": True},
    {"max_length": 7},
    {"max_length_factor": 2.0},
)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_written_by_the_function_of_its_name(name):
    module = importlib.import_module(f"keras_mt.convert.{name}")
    assert callable(getattr(module, f"to_{name}"))
    options = {field.name for field in dataclasses.fields(ExportOptions)}
    assert {*FORMATS[name].options} <= options
    assert bool(FORMATS[name].quantizations) == ("quantization" in FORMATS[name].options)


@pytest.mark.parametrize(  # Those that need a package of their own are long.
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if kind.package else [])
        for name, kind in FORMATS.items()
    ],
)
def test_each_format_refuses_what_it_cannot_hold(name, load):
    declared, translator = FORMATS[name], load()
    declared.check(translator)
    ensemble = Translator(translator.models * 2, translator.tokenizer)
    for other in (ensemble, load(temperature=1.0)):
        if declared.whole:
            declared.check(other)
        else:
            with pytest.raises(ValueError, match=declared.title):
                declared.check(other)
    for quantization in ("int8", "int16"):
        if quantization in declared.quantizations:
            declared.check(translator, quantization)
        else:
            with pytest.raises(ValueError, match=f"for {declared.title}.*'{quantization}'"):
                declared.check(translator, quantization)


@pytest.mark.parametrize(
    ("write", "file"), [(to_marian, "decoder.yml"), (to_huggingface, "generation_config.json")]
)
def test_an_option_of_the_search_is_written_or_refused_by_name(write, file, load, tmp_path):
    tokenizer, written = load().tokenizer, set()
    plain = written_kind(tokenizer) if write is to_marian else load()
    for i, options in enumerate([{}, *SEARCH]):
        translator = plain.with_options(**options)
        try:
            write(translator, tmp_path / str(i))
        except ValueError as error:
            assert any(f"{name}={value!r}" in str(error) for name, value in options.items())
        else:
            text = (tmp_path / str(i) / file).read_text()
            assert text not in written, options
            written.add(text)
    assert len(written) > 4


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("marian", {"patience": 2.0}, "leave --patience out: --format marian cannot hold it."),
        ("marian", {"early_stopping": "never"}, "leave --early-stopping out"),
        ("huggingface", {"max_length_factor": 2.0}, "leave --max-length-factor out"),
        ("huggingface", {"early_stopping": "shrink"}, "leave --early-stopping out"),
        ("litert", {"keep": "url"}, "leave --keep out: --format litert takes no texts."),
        ("ctranslate2", {"target_language": "de"}, "leave --target-language out"),
        ("ctranslate2", {"beam_size": 2}, "give it to what searches"),
        ("saved_model", {"quantization": "int8"}, "saved_model does not take it."),
        ("onnx", {"keep": "url", "n_best": 2}, "leave --keep out.*; leave --n-best out"),
        ("marian", {"dtype": "float16", "freeze": True}, "marian does not take them."),
    ],
)
def test_an_option_that_means_nothing_for_a_format_is_named(name, given, message):
    with pytest.raises(ValueError, match=message):
        check_options(name, given)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("marian", {"early_stopping": "shrink", "max_length_factor": 2.0, "beam_size": 1}),
        ("huggingface", {"early_stopping": False, "max_length": 9, "min_length": 2}),
        ("litert", {"keep": "none", "split_sentences": False, "target_language": "de"}),
        ("saved_model", {"keep": "url", "temperature": 0.5, "source_language": "en"}),
    ],
)
def test_what_a_format_holds_is_taken(name, given):
    check_options(name, given)
