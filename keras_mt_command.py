"""The command `keras-mt`, which shows its help before keras and TensorFlow are imported.

It stands beside the package because importing the package imports keras.
"""

import contextlib
import importlib.util
import os
import sys


def main():
    # The package's modules can be imported while the package itself has not run: the command's
    # declaration needs neither keras nor TensorFlow, whose import takes seconds. Before a command's
    # body runs, so does the package, as the same module, and registers its layers.
    spec = importlib.util.find_spec("keras_mt")
    package = importlib.util.module_from_spec(spec)
    sys.modules["keras_mt"] = package

    def run_package(of_export):
        if not os.environ.get("KERAS_MT_DEBUG"):
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        if of_export:  # It needs no Keras, which TensorFlow imports too unless it is to be another.
            os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
        with _hushed():
            import tensorflow as tf

            tf.config.list_physical_devices()
            if not of_export:
                import tensorflow_text  # noqa: F401 - prints too
        if not of_export:
            spec.loader.exec_module(package)

    from keras_mt.cli import main

    main(prog_name="keras-mt", obj=run_package)


@contextlib.contextmanager
def _hushed():
    """Standard error goes nowhere, native code's too; KERAS_MT_DEBUG=1 keeps it."""
    if os.environ.get("KERAS_MT_DEBUG"):
        yield
        return
    stderr = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(nowhere)
        os.close(stderr)


if __name__ == "__main__":
    main()
