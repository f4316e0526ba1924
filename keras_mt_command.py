"""The command `keras-mt`, which imports Keras and TensorFlow no earlier than it needs them.

It lies outside the package because importing the package imports Keras.
"""

import atexit
import importlib.util
import os
import signal
import sys
import threading


def _light_package():
    """The package before its __init__ has run; returns a function that runs it.

    Its modules can be imported: the help, and exports for LiteRT, need neither Keras nor
    TensorFlow, whose import takes seconds. Where the body of a command needs them, the __init__
    runs in the same module object, and registers the layers.
    """
    spec = importlib.util.find_spec("keras_mt")
    package = sys.modules["keras_mt"] = importlib.util.module_from_spec(spec)
    return lambda: spec.loader.exec_module(package)


def begin_worker():
    """Has a new process of a server end with the server, and no earlier."""
    for number in (signal.SIGINT, signal.SIGTERM):  # They are the server's, which ends this.
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent():
    import multiprocessing

    multiprocessing.parent_process().join()
    os._exit(1)


def load_worker(model):
    """Loads a model in a new process of a server; returns what there is to say of it."""
    run_package = _light_package()

    from keras_mt.cli import worker

    return worker.load(model, run_package)


def main():
    run_package = _light_package()

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


if __name__ == "__main__":
    main()
