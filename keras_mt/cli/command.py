"""The class of all commands: what runs before each, its errors, and its exit status."""

import contextlib
import gc
import os
import signal
import sys
import threading

import click

from keras_mt.cli.help import WithGroups
from keras_mt.cli.models import kind_of
from keras_mt.cli.options import as_typed
from keras_mt.cli.progress import say, waiting
from keras_mt.errors import InputError
from keras_mt.extras import needed, use_onednn
from keras_mt.logs import has_gpu, hushed

_BUG = 70  # The exit status of an internal error, as in sysexits.h.
_INTERRUPTED = 128 + signal.SIGINT  # As a shell gives it for what SIGINT has ended.
# What TensorFlow raises of wrong code. Its other errors have causes outside: a full disk or memory,
# a damaged file, a network.
_BUGS = ("FailedPrecondition", "Internal", "InvalidArgument", "OutOfRange", "Unimplemented")


class Command(WithGroups):
    """A command that shows an error in one line.

    The exit status is 1 if the user can mend it, 70 for a bug, and 130 with the message
    `interrupted` after Ctrl-C.
    """

    def __init__(self, *args, interrupted="interrupted.", is_light=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.interrupted, self.is_light = interrupted, is_light

    def invoke(self, context):
        try:
            with _noting_interrupts() as interrupts:
                if context.obj is not None and not self.is_light:  # As keras_mt_command gives it.
                    models = context.params.get("models", [context.params.get("model")])
                    # Of `train`, these are the settings of a model.
                    kinds = {kind_of(x) if isinstance(x, str) else None for x in models}
                    with waiting("starting"):
                        import_for(kinds, context.obj)
                return super().invoke(context)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise  # click's own, and what it ends without a word.
        except (Exception, KeyboardInterrupt) as error:
            if interrupts or isinstance(error, KeyboardInterrupt):
                message, status = self.interrupted, _INTERRUPTED
            elif os.environ.get("KERAS_MT_DEBUG"):
                raise
            else:
                message, status = _message(error, context.params.get("architecture"))
            failure = click.ClickException(message)
            failure.exit_code = status
            raise failure from error


def import_for(kinds, run_package):
    """Imports what a body needs and its help does not, for models of some kinds; None for all."""
    if not os.environ.get("KERAS_MT_DEBUG"):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if kinds <= {"litert"}:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's, which start as it does.
        return
    use_onednn()
    of_exports = kinds <= {"litert", "saved_model"}
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Whatever is set for scripts.
    if of_exports:
        # They need no Keras; without this variable TensorFlow would import it.
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
        # Their weights never change: they are packed for matrix products once.
        os.environ.setdefault("TF_ONEDNN_ASSUME_FROZEN_WEIGHTS", "1")
    gc.disable()  # What is imported stays: to look for garbage in it takes a second.
    with hushed():
        with needed("All but an export for LiteRT"):
            import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        if not of_exports:
            import tensorflow_text  # noqa: F401 - prints messages too
    if has_gpu() and not gpus and "CUDA_VISIBLE_DEVICES" not in os.environ:
        say(
            "TensorFlow cannot use this machine's GPU: it needs NVIDIA's driver, and pip install "
            "'tensorflow[and-cuda]'. KERAS_MT_DEBUG=1 shows why."
        )
    if not of_exports:
        run_package()
    gc.freeze()
    gc.enable()


def _message(error, architecture):
    """What to say of an error, and the exit status; the user's own classes may be at fault."""
    if isinstance(error, (InputError, OSError, FloatingPointError)):
        return as_typed(str(error)), 1
    if isinstance(error, MemoryError):
        return "there is not enough memory.", 1
    cause = _cause(str(error))
    tensorflow = sys.modules.get("tensorflow")  # Where it is not imported it raised nothing.
    is_op_error = tensorflow and isinstance(error, tensorflow.errors.OpError)
    if is_op_error and not type(error).__name__.startswith(_BUGS):
        return cause, 1
    given = [architecture] if isinstance(architecture, str) else architecture or ()
    where = " or ".join(["keras_mt", *(name for name in given if ":" in name)])
    return (
        f"this is a bug in {where}: {type(error).__name__}: {cause.rstrip('.')}; run again with "
        "KERAS_MT_DEBUG=1 to see the trace, and report it."
    ), _BUG


@contextlib.contextmanager
def _noting_interrupts():
    """Yields a list that gets an entry for each SIGINT.

    What TensorFlow calls while it traces may turn a KeyboardInterrupt into an error of its own.
    """
    interrupts, before = [], signal.getsignal(signal.SIGINT)

    def interrupt(number, frame):
        interrupts.append(number)
        raise KeyboardInterrupt

    # Unless somebody else handles or ignores it; only the main thread may.
    ours = before is signal.default_int_handler
    ours = ours and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _cause(message):
    """The line of a message, TensorFlow's or Keras's, that says what happened, not where."""
    lines = [line.strip() for line in message.splitlines()]
    where = ("Graph execution error", "Detected at node", 'File "', "Node:", "<stack traces")
    causes = [line for line in lines if line and not line.startswith(where)]
    return [*causes, *lines, message][0]
