"""The model of a worker process, which `keras-mt serve` starts."""

from keras_mt.cli.command import import_for
from keras_mt.cli.models import kind_of, load_model
from keras_mt.serving.worker import start


def load(path, run_package):
    """Loads a model, with what it needs and no more; returns what there is to say of it."""
    kind = kind_of(path)
    import_for({kind}, run_package)
    return start(load_model(path), batch=8 if kind == "litert" else 32)
