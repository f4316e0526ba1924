"""The command `keras-mt`, without the messages that TensorFlow prints as it starts.

It stands beside the package because importing the package imports TensorFlow.
"""

import contextlib
import os


def main():
    if not os.environ.get("KERAS_MT_DEBUG"):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _hushed():
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 - prints too

        tf.config.list_physical_devices()
    from keras_mt.cli import main

    main(prog_name="keras-mt")


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
