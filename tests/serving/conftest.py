import pytest


@pytest.fixture(scope="session")
def translator(run_dir):
    from keras_mt import Translator

    return Translator.load(run_dir, beam_size=3, n_best=2)


@pytest.fixture(scope="session")
def sources(corpus):
    return (corpus / "pt.test.txt").read_text(encoding="utf-8").splitlines()[:12]


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    """The version folder of an export."""
    directory = tmp_path_factory.mktemp("saved_models") / "pt_en" / "1"
    translator.export(directory, card={"license": "Apache-2.0"})
    return directory


@pytest.fixture(scope="session")
def signatures(exported):
    import tensorflow as tf

    return tf.saved_model.load(str(exported)).signatures
