"""The table of formats: each entry has its file, and says what it refuses."""

import dataclasses
import importlib

import pytest

from keras_mt import Translator
from keras_mt.convert.formats import FORMATS, ExportOptions


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_written_by_the_function_of_its_name(name):
    module = importlib.import_module(f"keras_mt.convert.{name}")
    assert callable(getattr(module, f"to_{name}"))
    options = {field.name for field in dataclasses.fields(ExportOptions)}
    assert {*FORMATS[name].options} <= options
    assert bool(FORMATS[name].quantizations) == ("quantization" in FORMATS[name].options)


@pytest.mark.parametrize("name", FORMATS)
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
