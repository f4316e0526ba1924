"""Model cards of imported folders."""

import shutil

import pytest
from command import keras_mt

from keras_mt.convert.card import read_card
from keras_mt.run_folder import RunFolder


@pytest.mark.parametrize(
    ("header", "line", "non_commercial"),
    [
        ("language: en\nlicense: mit", "license: mit; languages: en", False),
        ("license: cc-by-nc-4.0\nlanguage:\n- en\n- de", "cc-by-nc-4.0; languages: en, de", True),
        ("language: en, de  # and others", "languages: en, de", False),
        ("language: [en, zh-Hant]\nlicense: 'cc-by-4.0'", "by-4.0; languages: en, zh-Hant", False),
        ("license: other\nlicense_name: my-non-commercial", "license: my-non-commercial;", True),
        ("license: other\ntags:\n- a", "license: other; languages: not stated", False),
        ("license: Creative Commons NonCommercial", ": Creative Commons NonCommercial;", True),
        ("license: \"CC BY-NC 4.0\"  # as NLLB's", ": CC BY-NC 4.0;", True),
        ("license: [mit, cc_by_nc_sa-4.0]", ": mit, cc_by_nc_sa-4.0;", True),
        ("license:\n- cc-by-4.0\n- 'free: for research only'", "free: for research only;", True),
        ("license: >-\n  Not for\n  commercial use", ": Not for commercial use;", True),
        ("license: ncsa", ": ncsa;", False),
        ("license:\nlanguage: en", "license: not stated; languages: en", False),
        ("language:\n" + "- aa\n" * 101, "license: not stated; languages: 101", False),
        ("", "license: not stated; languages: not stated", False),
    ],
)  # fmt: skip
def test_a_card_says_license_and_languages(header, line, non_commercial, tmp_path):
    text = f"---\n{header}\ndatasets:\n- x\n---\n# A model\n\nlicense: none\n"
    (tmp_path / "README.md").write_text(text)
    card = read_card(tmp_path)
    assert line in str(card) and ("non-commercial use" in str(card)) is non_commercial
    assert str(read_card(tmp_path / "none")) == "license: not stated; languages: not stated"


def test_the_command_says_the_license_first(golden, tmp_path):
    folder = shutil.copytree(golden / "nllb", tmp_path / "nllb")
    (folder / "README.md").write_text("---\nlicense: cc-by-nc-4.0\nlanguage: [en, pt]\n---\n")
    run = tmp_path / "run"
    first, warning, last = keras_mt("import", folder, run).stdout.splitlines()
    assert first == "license: cc-by-nc-4.0; languages: en, pt"
    assert "non-commercial" in warning and last.startswith("imported ")
    assert RunFolder(run).card()["license"] == "cc-by-nc-4.0"
