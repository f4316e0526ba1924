"""The command `keras-mt`, without the messages that TensorFlow prints as it starts.

It stands beside the package because importing the package imports TensorFlow.
"""

import os


def main():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from keras_mt.cli import main

    main(prog_name="keras-mt")
