"""Formats: each is declared in its file, and refuses what it has no place for."""

import dataclasses
import importlib
import inspect

import pytest
from test_marian import written_kind

from keras_mt import Translator
from keras_mt.convert.formats import FORMATS, SEARCH, ExportOptions, export, load_format
from keras_mt.convert.huggingface import to_huggingface
from keras_mt.convert.marian import to_marian
from keras_mt.options import TranslationOptions

QUANTIZATIONS = ExportOptions.__dataclass_fields__["quantization"].metadata["choices"]
# An option of the search each, with those that it needs.
OPTIONS = (
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
def test_each_format_is_declared_beside_the_function_of_its_name(name):
    module = importlib.import_module(f"keras_mt.convert.{name}")
    export = {field.name for field in dataclasses.fields(ExportOptions)}
    taken = {*inspect.signature(getattr(module, f"to_{name}")).parameters}
    assert export & taken == export & {*module.FORMAT.holds}
    translation = {field.name for field in dataclasses.fields(TranslationOptions)}
    assert {*module.FORMAT.holds} <= export | translation | {"ensemble", "shortlist"}
    assert {*module.FORMAT.quantizations} <= {*QUANTIZATIONS}
    assert bool(module.FORMAT.quantizations) == ("quantization" in taken)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_refuses_what_it_cannot_hold(name, load, tmp_path):
    declared, translator = load_format(name), load()
    declared = dataclasses.replace(declared, package=None)
    declared.check(translator, tmp_path / "new")
    ensemble = Translator(translator.models * 2, translator.tokenizer)
    for other, holds in (
        (ensemble, "ensemble" in declared.holds),
        (
            load(temperature=1.0),
            "temperature" in declared.holds or not {*SEARCH} & {*declared.holds},
        ),
    ):
        if holds:
            declared.check(other, tmp_path / "new")
        else:
            with pytest.raises(ValueError, match=declared.title):
                declared.check(other, tmp_path / "new")
    for quantization in QUANTIZATIONS if declared.quantizations else ():
        if quantization in declared.quantizations:
            declared.check(translator, tmp_path / "new", quantization)
        else:
            with pytest.raises(ValueError, match=f"for {declared.title}.*'{quantization}'"):
                declared.check(translator, tmp_path / "new", quantization)
    with pytest.raises(FileExistsError, match="is not overwritten"):
        declared.check(translator, tmp_path)


@pytest.mark.parametrize(
    ("write", "file"), [(to_marian, "decoder.yml"), (to_huggingface, "generation_config.json")]
)
def test_an_option_of_the_search_is_written_or_refused_by_name(write, file, load, tmp_path):
    tokenizer, written = load().tokenizer, set()
    plain = written_kind(tokenizer) if write is to_marian else load()
    for i, options in enumerate([{}, *OPTIONS]):
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
    ("name", "option", "value", "takes"),
    [
        ("marian", "patience", 2.0, False),
        ("marian", "early_stopping", "never", False),
        ("marian", "early_stopping", "shrink", True),
        ("marian", "max_length_factor", 2.0, True),
        ("marian", "dtype", "float16", False),
        ("huggingface", "max_length_factor", 2.0, False),
        ("huggingface", "early_stopping", "shrink", False),
        ("huggingface", "early_stopping", False, True),
        ("litert", "keep", "url", True),
        ("litert", "temperature", 0.5, False),
        ("litert", "target_language", "de", True),
        ("ctranslate2", "target_language", "de", False),
        ("ctranslate2", "beam_size", 2, False),
        ("argos", "beam_size", 2, False),
        ("argos", "card", {"license": "mit"}, True),
        ("saved_model", "quantization", "int8", False),
        ("saved_model", "temperature", 0.5, True),
        ("saved_model", "keep", "url", True),
    ],
)
def test_a_format_says_which_options_it_takes(name, option, value, takes):
    assert load_format(name).takes(option, value) is takes


def test_a_format_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"format must be one of saved_model, .*'gguf'"):
        export(None, tmp_path / "out", "gguf")
