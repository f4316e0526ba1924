"""What the command shows of an error, and its exit status."""

import contextlib
import os
import signal
import sys
from typing import Any

import click

from keras_mt.cli.models import is_export
from keras_mt.errors import InputError

_BUG = 70  # The exit status of an internal error, as in sysexits.h.
INTERRUPTED = 128 + 2  # As a shell gives it for a program that SIGINT has ended.
# What has other causes than the code that runs: a full disk or memory, a damaged file, a network.
_OUTER_CAUSES = (
    "AbortedError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "NotFoundError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnknownError",
)


class Failure(click.ClickException):
    """An error that ends the command with a message and an exit status."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


@contextlib.contextmanager
def clear_errors(architectures=()):
    """Turns errors into one message and an exit status: 1 for the user's, 70 for our own.

    Args:
        architectures: The user's own classes, whose code may be at fault too.
    """
    try:
        with _noting_interrupts() as interrupts:
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise  # click's own, and what it ends without a word.
    except (Exception, KeyboardInterrupt) as error:
        if interrupts or isinstance(error, KeyboardInterrupt):
            raise Failure("interrupted.", INTERRUPTED) from None
        if os.environ.get("KERAS_MT_DEBUG"):
            raise
        if isinstance(error, (InputError, OSError, FloatingPointError)):
            raise Failure(str(error)) from error
        if isinstance(error, MemoryError):
            raise Failure("there is not enough memory.") from error
        # One of TensorFlow's, which is imported by now or has raised nothing.
        cause = _cause(str(error))
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow and isinstance(
            error, tuple(getattr(tensorflow.errors, name) for name in _OUTER_CAUSES)
        ):
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
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts  # Somebody else handles it, or it is ignored.
        return

    def interrupt(number, frame):
        interrupts.append(number)
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, interrupt)
    except ValueError:  # Only the main thread may set what signals do.
        yield interrupts
        return
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _cause(message):
    """The line of a message, TensorFlow's or Keras's, that says what happened, not where."""
    lines = [line.strip() for line in message.splitlines()]
    where = ("Graph execution error", "Detected at node", 'File "', "Node:", "<stack traces")
    causes = [line for line in lines if line and not line.startswith(where)]
    return [*causes, *lines, message][0]


class Command(click.Command):
    def __init__(self, *args: Any, **kwargs: Any):
        # Also where it is invoked by itself: click keeps its first help option.
        settings = {"help_option_names": ["-h", "--help"]}
        super().__init__(*args, context_settings=settings, **kwargs)

    def parse_args(self, context, arguments):
        flags = {getattr(param, "former_flag", None): param.opts[0] for param in self.params}
        for i, argument in enumerate(arguments):
            flag, equals, value = argument.partition("=")
            if flag in flags:
                click.echo(f"{flag} is now {flags[flag]}.", err=True)
                arguments[i] = flags[flag] + equals + value
        return super().parse_args(context, arguments)

    def invoke(self, context):
        architectures = context.params.get("architecture") or ()
        with clear_errors([architectures] if isinstance(architectures, str) else architectures):
            if context.obj is not None:
                # The imports that the body needs and the help does not: see keras_mt_command.
                translates = self.name == "translate"
                context.obj(of_export=translates and is_export(context.params["model"]))
            return super().invoke(context)
