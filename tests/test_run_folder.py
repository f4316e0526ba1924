import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import zipfile

import keras
import ml_dtypes
import numpy as np
import pytest
from conftest import ROOT
from runs import assert_same_weights

from keras_mt import Transformer
from keras_mt.convert import import_model
from keras_mt.errors import InputError
from keras_mt.models import architecture_name, find_architecture
from keras_mt.run_folder import LOG_COLUMNS, RunConfig, RunFolder
from keras_mt.training import train

CASED = ROOT / "examples" / "multi30k" / "cased"


@pytest.mark.parametrize("schema", [{"schema": 99, "keras_mt": "9.0"}, {"keras_mt": "9.0"}])
def test_a_configuration_of_another_schema_is_refused(schema, tmp_path):
    values = json.loads((CASED / "config.json").read_text())
    del values["schema"]
    (tmp_path / "config.json").write_text(json.dumps(values | schema))
    with pytest.raises(ValueError, match=r"config\.json cannot be read: .* of keras_mt 9\.0"):
        _ = RunFolder(tmp_path).config
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        _ = RunFolder(tmp_path).config


def test_an_option_that_is_gone_is_named(tmp_path):
    values = json.loads((CASED / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "lora_ranks": 0.1, "gone": None}))
    with pytest.raises(ValueError, match=r"has no option 'lora_ranks'; did you mean 'lora_rank'"):
        _ = RunFolder(tmp_path).config


def test_how_to_decode_is_kept_and_only_that():
    values = json.loads((CASED / "config.json").read_text())
    assert RunConfig.from_json(json.dumps(values)).generation is None
    for generation in ({"beam_size": 6, "length_penalty": 0.5}, {}, None):
        config = RunConfig.from_json(json.dumps({**values, "generation": generation}))
        assert config.generation == generation
        assert RunConfig.from_json(config.to_json()) == config
    for generation in ({"num_beams": 6}, {"model": "x"}, ["beam_size"], 4):
        with pytest.raises(
            (TypeError, ValueError), match=r"its generation (has no option|cannot be)"
        ):
            RunConfig.from_json(json.dumps({**values, "generation": generation}))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("/home/someone/secret/corpus/", "corpus"),
        ("corpus.tsv", "corpus.tsv"),
        ("tfds:ted_hrlr_translate/pt_to_en", "tfds:ted_hrlr_translate/pt_to_en"),
        (["phrasebook", "../x/b.tsv"], ["phrasebook", "b.tsv"]),
    ],
)
def test_the_card_names_the_data_without_its_path(data, name, tmp_path):
    folder = RunFolder(tmp_path)
    values = json.loads((CASED / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**values, "data": [data] if isinstance(data, str) else data})
    )
    assert folder.card() == {"source": "en", "target": "de", "data": name}


@pytest.mark.parametrize(
    ("weights", "last_step", "bleu"),
    [("best", 3, 4.5), ("last", 2, None), ("average", 2, None)],
)
def test_the_card_has_the_bleu_of_the_best_weights(weights, last_step, bleu, tmp_path):
    folder = RunFolder(tmp_path)
    values = json.loads((CASED / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "weights": weights}))
    folder.begin_log([{"step": 1, "val_bleu": 4.5, "val_chrf": 20}])
    folder.append_log({"step": 2, "val_bleu": 3, "val_chrf": 21})
    folder.append_log({"step": last_step})
    assert folder.card().get("validation", {}).get("bleu") == bleu


@pytest.mark.parametrize("named", [None, "", "garbage"])
def test_what_no_file_lets_go_on_is_not_trained_over(named, tmp_path):
    folder = RunFolder(tmp_path)
    shutil.copy(CASED / "config.json", tmp_path)
    folder.check_usable()
    folder.checkpoints.mkdir()
    if named is None:
        folder.model_file.touch()
    else:
        (folder.checkpoints / "step-50.index").touch()
        (folder.checkpoints / "checkpoint").write_text(named)
    with pytest.raises(ValueError, match=r"put back checkpoints/checkpoint, .* give `--init"):
        folder.check_usable()


def test_a_file_is_no_output_folder(tmp_path):
    (tmp_path / "run").touch()
    with pytest.raises(ValueError, match="run is a file: give a folder"):
        train("phrasebook", "pt", "en", tmp_path / "run")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"data": 5}, "its data cannot be 5"),
        ({"source": {}}, "its source cannot be"),
        ({"seed": "one"}, "seed must be an integer"),
        ({"preset": ["tiny"]}, "preset must be a string"),
        ({"dtype": "int7"}, "dtype must be one of"),
        ({"model": 1}, "model must be arguments by name"),
        ({"model_config": 1}, "its model_config cannot be 1"),
        ({"fingerprints": [1]}, "its fingerprints cannot be"),
        (b"\xff\xfe", "utf-8"),
        (b'{"data": ', "Expecting value"),
    ],
)
def test_a_damaged_configuration_is_refused_by_name(tmp_path, damage, message):
    values = json.loads((CASED / "config.json").read_text())
    text = damage if isinstance(damage, bytes) else json.dumps(values | damage).encode()
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(InputError, match=rf"config\.json cannot be read: .*{message}"):
        _ = RunFolder(tmp_path).config


@pytest.mark.parametrize(
    "damage",
    [
        b"a,b\n1,2\n",
        b"step,seconds\nx,1\n",
        b"step,seconds\n1,x\n",
        b"step,seconds\n1,2,3\n",
        b"\xff",
    ],
)
def test_a_damaged_log_is_refused_by_name(tmp_path, damage):
    (tmp_path / "log.csv").write_bytes(damage)
    with pytest.raises(InputError, match=r"log\.csv cannot be read: "):
        RunFolder(tmp_path).read_log()
    (tmp_path / "log.csv").write_bytes(b"step,seconds,loss\n1,2.0,\n2,x,3\n")
    with pytest.raises(InputError, match=r"log\.csv cannot be read: .*'x'"):
        RunFolder(tmp_path).read_log()


DIES_WITH_THE_LOCK = """
import os, signal, sys
from keras_mt.run_folder import RunFolder
with RunFolder(sys.argv[1]).locked():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_trainings_do_not_share_a_folder(python, corpus, tmp_path):
    folder, options = RunFolder(tmp_path / "a" / "run"), {"vocab_size": 300, "steps": 1}
    with folder.locked():
        owner = rf"being trained into by process {os.getpid()} on {platform.node()}: wait"
        with pytest.raises(ValueError, match=owner):
            train(corpus, "pt", "en", folder.path, **options)
        assert [path.name for path in folder.path.iterdir()] == [".lock"]
    assert list(folder.path.iterdir()) == []
    assert python("-c", DIES_WITH_THE_LOCK, folder.path).returncode
    assert (folder.path / ".lock").exists()
    with folder.locked():  # Its owner is dead.
        pass


def test_a_damaged_model_is_refused_by_name(tmp_path):
    shutil.copytree(ROOT / "tests" / "fixture" / "pt_en", tmp_path, dirs_exist_ok=True)
    damaged = bytearray((tmp_path / "model.keras").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "model.keras").write_bytes(damaged)
    with pytest.raises(ValueError, match=r"model.keras cannot be read: Bad CRC-32"):
        RunFolder(tmp_path).load_model()


@pytest.mark.parametrize(
    "saved",
    [
        [],
        {},
        {"registered_name": None, "class_name": "Transformer"},
        {"registered_name": ["keras_mt>Transformer"], "class_name": "Transformer", "config": {}},
        {"registered_name": None, "class_name": [], "config": {}},
        {"registered_name": "keras_mt>Transformer", "class_name": "Transformer", "config": None},
    ],
)
def test_a_damaged_configuration_of_a_model_is_refused_by_name(saved, tmp_path):
    (tmp_path / "tokenizer.model").touch()
    with zipfile.ZipFile(tmp_path / "model.keras", "w") as archive:
        archive.writestr("config.json", json.dumps(saved))
        archive.writestr("model.weights.h5", b"")
    with pytest.raises(InputError, match=r"model\.keras cannot be read: "):
        RunFolder(tmp_path).load_model(dtype="float32")


def test_a_full_disk_is_no_damaged_model(run_dir, tmp_path, monkeypatch):
    """The weights are unpacked where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match=rf"File too large: '{tmp_path}'"):
            RunFolder(run_dir).load_model()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_row_that_was_written_in_part_is_left_out(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.read_log() == [] and folder.card() == {}
    folder.begin_log([{"step": 1, "loss": 2.5}])
    with open(folder.log_file, "a") as log:
        log.write("2,1,3.")
    (row,) = folder.read_log()
    assert row["loss"] == "2.5" and tuple(row) == LOG_COLUMNS


def test_what_is_missing_is_named(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"not a finished run folder: it has no model\.ker"):
        folder.load_model()
    folder.model_file.touch()
    with pytest.raises(FileNotFoundError, match=r"it has no tokenizer\.model"):
        folder.check_finished()
    (tmp_path / "tokenizer.model").touch()
    folder.check_finished()
    with pytest.raises(ValueError, match=r"model\.keras cannot be read"):
        folder.load_model()
    for weights in ({}, {"model.weights.h5": bytes(100_000)}):
        with zipfile.ZipFile(folder.model_file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in {"config.json": b'{"registered_name": "x"}', **weights}.items():
                archive.writestr(name, data)
        with pytest.raises(ValueError, match=r"model\.keras cannot be read: .*weights"):
            folder.load_model()


class Own(Transformer):
    pass


def test_a_model_of_ones_own_class_is_loaded_only_where_it_is_given(tmp_path):
    folder = RunFolder(tmp_path)
    own = Own(9, num_layers=1, d_model=8, num_heads=2, d_ff=8)
    folder.save_model(own, own.get_weights())
    (tmp_path / "tokenizer.model").touch()
    for given in (None, "transformer"):
        with pytest.raises(ValueError, match=r"its class 'Own' is none of .*as `architecture`"):
            folder.load_model(given)
    for given in (Own, ["transformer", Own]):
        loaded = folder.load_model(given)
        assert type(loaded) is Own
        assert_same_weights(loaded, own)


LOADS = """
import sys
sys.path.insert(0, sys.argv[1])
from keras_mt.run_folder import RunFolder
try:
    RunFolder(sys.argv[1]).load_model()
except ValueError as error:
    assert "MODULE:CLASS" in str(error), error
else:
    sys.exit("loaded")
assert "my_model" not in sys.modules
"""


def test_no_file_of_a_run_makes_anything_be_imported(python, tmp_path, monkeypatch):
    (tmp_path / "my_model.py").write_text(
        "import keras, keras_mt\n"
        "@keras.saving.register_keras_serializable('own')\n"
        "class Model(keras_mt.Transformer): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    own = find_architecture("my_model:Model")
    assert architecture_name(own) == "my_model:Model"
    assert str(tmp_path) not in sys.path
    folder = RunFolder(tmp_path)
    model = own(9, num_layers=1, d_model=8, num_heads=2, d_ff=8)
    folder.save_model(model, model.get_weights())
    (tmp_path / "tokenizer.model").touch()
    # There it could be imported.
    done = python("-c", LOADS, tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert isinstance(folder.load_model("my_model:Model"), own)
    del sys.modules["my_model"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lstm", "Unknown architecture 'lstm'; there are transformer"),
        (":x", "Unknown architecture ':x'"),
        ("no_such_module:Model", "has no module 'no_such_module'"),
        ("json:Model", "'json' has no class 'Model'"),
        ("json:loads", "'json' has no class 'loads'"),
        ("json:JSONDecoder", "'json:JSONDecoder' is not a model: derive it from Seq2Seq"),
    ],
)
def test_an_unknown_architecture_is_refused(name, message):
    with pytest.raises(ValueError, match=message):
        find_architecture(name)


def test_an_import_error_inside_ones_own_module_shows(tmp_path, monkeypatch):
    (tmp_path / "broken_model.py").write_text("import no_such_library\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        find_architecture("broken_model:Model")


def test_a_saved_model_takes_another_dtype_where_it_knows_of_one(tmp_path):
    @keras.saving.register_keras_serializable("test_run_folder")
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)
            self.dense.build((None, 3))
            self.built = True

        def get_config(self):
            return {}

    folder, model = RunFolder(tmp_path), Plain()
    folder.save_model(model, [np.ones((3, 2)), np.ones(2)])
    (tmp_path / "tokenizer.model").touch()
    for dtype in (None, "bfloat16"):
        loaded = folder.load_model(Plain, dtype)
        np.testing.assert_array_equal(loaded.get_weights()[0], np.ones((3, 2)))


def test_a_model_is_loaded_in_the_dtype_that_is_asked_for(tmp_path):
    folder = RunFolder(tmp_path)
    model = Transformer(9, num_layers=1, d_model=8, num_heads=2, d_ff=8)
    folder.save_model(model, model.get_weights(), "bfloat16")
    (tmp_path / "tokenizer.model").touch()
    for dtype, expected in ((None, "bfloat16"), ("float32", "float32"), ("float16", "float16")):
        loaded = folder.load_model(dtype=dtype)
        assert loaded.compute_dtype == expected
        for mine, other in zip(loaded.get_weights(), model.get_weights(), strict=True):
            rounded = other.astype(ml_dtypes.bfloat16).astype(expected)
            assert mine.dtype == rounded.dtype
            np.testing.assert_array_equal(mine, rounded)


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_a_damaged_tokenizer_is_named(content, run_dir, golden, tmp_path):
    shutil.copytree(run_dir, tmp_path / "ours")
    import_model(golden / "nllb", tmp_path / "imported")
    for run, name in (("ours", "tokenizer.model"), ("imported", "tokenizer/source.model")):
        file = tmp_path / run / name
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"{file.name} is not a SentencePiece model\\.$"):
            RunFolder(tmp_path / run).load_tokenizer()
