"""The command `keras-mt`, which shows its help without importing Keras and TensorFlow.

It lies outside the package because importing the package imports Keras.
"""

import atexit
import contextlib
import gc
import importlib.util
import os
import signal
import sys


def main():
    # The package's modules can be imported before its __init__ has run: declaring the command
    # needs neither Keras nor TensorFlow, whose import takes seconds. Before the body of a command
    # runs, the __init__ runs in the same module object, and registers the package's layers.
    spec = importlib.util.find_spec("keras_mt")
    package = importlib.util.module_from_spec(spec)
    sys.modules["keras_mt"] = package

    def run_package(of_export):
        quiet = not os.environ.get("KERAS_MT_DEBUG")
        if quiet:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ["KERAS_BACKEND"] = "tensorflow"  # Whatever is set for scripts.
        if of_export:
            # It needs no Keras; without this variable TensorFlow would import it.
            os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
            # Its weights never change: they are packed for matrix products once.
            os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
        gc.disable()  # What is imported stays: to look for garbage in it takes a second.
        with _hushed() if quiet else contextlib.nullcontext():
            import tensorflow as tf

            tf.config.list_physical_devices()
            if not of_export:
                import tensorflow_text  # noqa: F401 - prints messages too
        if not of_export:
            spec.loader.exec_module(package)
        gc.freeze()
        gc.enable()

    from keras_mt.cli import main

    try:
        main(prog_name="keras-mt", obj=run_package)
    except OSError as error:  # As of `--help > /dev/full`.
        _discard_output()
        sys.exit(f"Error: cannot write to standard output: {error.strerror}.")
    except SystemExit as end:
        _discard_output()
        if end.code == 128 + signal.SIGINT:
            # By the signal, as shells expect, and without waiting for threads in TensorFlow.
            atexit._run_exitfuncs()  # Temporary files are removed.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        raise


def _discard_output():
    """Drops what cannot be written, which Python would try again at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@contextlib.contextmanager
def _hushed():
    """Discards standard error, native code's too."""
    stderr = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


if __name__ == "__main__":
    main()
