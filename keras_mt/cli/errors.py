"""Errors as the command shows them, and its exit status."""

import contextlib
import os
import signal
import sys
import threading
from typing import Any

import click

from keras_mt.cli.models import is_export
from keras_mt.cli.options import as_typed
from keras_mt.errors import InputError

_BUG = 70  # The exit status of an internal error, as in sysexits.h.
_INTERRUPTED = 128 + signal.SIGINT  # As a shell gives it for what SIGINT has ended.
# What TensorFlow raises of wrong code. Its other errors have causes outside: a full disk or memory,
# a damaged file, a network.
_BUGS = ("FailedPrecondition", "Internal", "InvalidArgument", "OutOfRange", "Unimplemented")


class Failure(click.ClickException):
    """An error that ends the command with a message and an exit status."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def _clear_errors(architectures, interrupted):
    """Turns errors into one message and an exit status: 1 for the user's, 70 for our own."""
    try:
        with _noting_interrupts() as interrupts:
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise  # click's own, and what it ends without a word.
    except (Exception, KeyboardInterrupt) as error:
        if interrupts or isinstance(error, KeyboardInterrupt):
            raise Failure(interrupted, _INTERRUPTED) from None
        if os.environ.get("KERAS_MT_DEBUG"):
            raise
        if isinstance(error, (InputError, OSError, FloatingPointError)):
            raise Failure(as_typed(str(error))) from error
        if isinstance(error, MemoryError):
            raise Failure("there is not enough memory.") from error
        cause = _cause(str(error))
        tensorflow = sys.modules.get("tensorflow")  # Where it is not imported it raised nothing.
        is_op_error = tensorflow and isinstance(error, tensorflow.errors.OpError)
        if is_op_error and not type(error).__name__.startswith(_BUGS):
            raise Failure(cause) from error
        where = " or ".join(["keras_mt", *(name for name in architectures if ":" in name)])
        raise Failure(
            f"this is a bug in {where}: {type(error).__name__}: {cause.rstrip('.')}; run again "
            "with KERAS_MT_DEBUG=1 to see the trace, and report it.",
            _BUG,
        ) from error


@contextlib.contextmanager
def _noting_interrupts():
    """Yields a list that has an entry for each SIGINT.

    What TensorFlow calls while it traces may turn a KeyboardInterrupt into an error of its own, to
    which Keras adds the arguments of the layer that was called.
    """
    interrupts = []

    def interrupt(number, frame):
        interrupts.append(number)
        raise KeyboardInterrupt

    # Unless somebody else handles it; and only the main thread may set what signals do.
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ours = ours and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _cause(message):
    """The line of a message, TensorFlow's or Keras's, that says what happened, not where."""
    lines = [line.strip() for line in message.splitlines()]
    where = ("Graph execution error", "Detected at node", 'File "', "Node:", "<stack traces")
    causes = [line for line in lines if line and not line.startswith(where)]
    return [*causes, *lines, message][0]


class Command(click.Command):
    """A command that shows errors in one line, and says `interrupted` where Ctrl-C ends it."""

    def __init__(self, *args: Any, interrupted: str = "interrupted.", **kwargs: Any):
        # Also where it is invoked by itself: click keeps its first help option.
        super().__init__(*args, context_settings={"help_option_names": ["-h", "--help"]}, **kwargs)
        self.interrupted = interrupted

    def invoke(self, context):
        architectures = context.params.get("architecture") or ()
        architectures = [architectures] if isinstance(architectures, str) else architectures
        with _clear_errors(architectures, self.interrupted):
            if context.obj is not None:
                # The imports that the body needs and the help does not: see keras_mt_command.
                translates = self.name in ("translate", "translate-files")
                context.obj(of_export=translates and is_export(context.params["model"]))
            return super().invoke(context)
