import json
import subprocess
import sys

import pytest
from command import keras_mt
from conftest import ROOT

from keras_mt.convert import import_model
from keras_mt.models import Recurrent, ensure_built
from keras_mt.run_folder import RunFolder

LITERT = ROOT / "saved_models" / "multi30k_en_de_litert"


def told(path):
    return json.loads(keras_mt("info", path, "--json").stdout)


def test_an_export_is_what_its_card_says():
    card = json.loads((LITERT / "model_card.json").read_text())
    fields = told(LITERT)
    size = sum(path.stat().st_size for path in LITERT.iterdir())
    assert fields == {"kind": "litert", **card, "bytes": size}
    table = keras_mt("info", LITERT).stdout
    for row in (
        r"kind        litert",
        r"vocabulary  4,000 (SentencePiece with byte fallback, NFKC)",
        r"options     beam_size=5, trusted_attention=True, quantization=int8, limit=256",
        r"validation  bleu=42.99, chrf=65.2",
        r"license     weights for research use only, as the captions of Multi30k are",
    ):
        assert f"{row}\n" in table
    saved = told(LITERT.with_name("multi30k_en_de"))  # Above its version.
    assert saved["kind"] == "saved_model" and saved["options"]["dtype"] == "bfloat16"


@pytest.mark.parametrize("name", ["pt_en", "m2m_100", "gru"])
def test_a_run_is_what_keras_loads(name, run_dir, golden, load, tmp_path):
    folder = RunFolder(run_dir if name == "pt_en" else tmp_path / name)
    if name == "m2m_100":
        import_model(golden / name, folder.path)
    elif name == "gru":
        model = ensure_built(Recurrent(1000, 1, 16, padding_id=0))
        folder.save_model(model, model.get_weights())
        folder.save_tokenizer(load().tokenizer)
    fields, model, tokenizer = told(folder.path), folder.load_model(), folder.load_tokenizer()
    assert fields["model"]["architecture"] == type(model).__name__
    config = model.get_config()
    assert len(fields["model"]) > 5
    assert all(config[name] == x for name, x in fields["model"].items() if name in config)
    assert fields["tokenizer"]["vocab_size"] == tokenizer.target_vocab_size
    assert fields["tokenizer"]["languages"] == [*tokenizer.languages]
    if name == "pt_en":
        assert (fields["source"], fields["target"], fields["data"]) == ("pt", "en", "phrasebook")
        assert fields["trained"] == {"step": 6000, "epoch": 36, "seconds": 439.5}
    if name == "m2m_100":
        generation = folder.config.generation
        assert {n: fields["options"][n] for n in generation} == generation


def test_what_is_none_or_damaged_is_refused(run_dir, tmp_path):
    result = keras_mt("info", tmp_path, exit_code=1)
    assert "is neither a run folder nor an export" in result.stderr
    (tmp_path / "config.json").write_bytes((run_dir / "config.json").read_bytes())
    assert "model" not in told(tmp_path)  # A run that is not finished.
    (tmp_path / "model.keras").write_bytes((run_dir / "model.keras").read_bytes()[:-9])
    assert (
        "model.keras cannot be read: File is not a zip"
        in keras_mt("info", tmp_path, exit_code=1).stderr
    )


def test_neither_keras_nor_tensorflow_is_imported(run_dir):
    script = (
        "import sys, keras_mt_command\n"
        "for path in sys.argv[1:]:\n"
        "    sys.argv = ['keras-mt', 'info', path]\n"
        "    try:\n"
        "        keras_mt_command.main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        "    for name in [name for name in sys.modules if name.startswith('keras_mt.')]:\n"
        "        del sys.modules[name]\n"
        "assert not {'keras', 'tensorflow'} & {*sys.modules}\n"
    )
    command = [sys.executable, "-c", script, run_dir, LITERT, LITERT.with_name("multi30k_en_de")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("kind") == 3
