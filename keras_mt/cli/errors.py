"""What the command shows of an error, and the classes of its commands."""

import contextlib
import os
import sys

import click

from keras_mt.cli.models import is_export


def _mendable():
    """The errors whose message tells the user what to fix."""
    errors = (ValueError, OSError, FloatingPointError, RuntimeError)
    tensorflow = sys.modules.get("tensorflow")
    return errors if tensorflow is None else (*errors, tensorflow.errors.OpError)


@contextlib.contextmanager
def clear_errors():
    """Turns the errors that the user can fix into a message and exit status 1."""
    try:
        yield
    except BrokenPipeError:
        raise  # click ends without a word.
    except _mendable() as error:
        if os.environ.get("KERAS_MT_DEBUG"):
            raise
        message = str(error)
        if not isinstance(error, _mendable()[:4]):  # One of TensorFlow's.
            message = _cause(message)
        raise click.ClickException(message) from error


def _cause(message):
    """The line of TensorFlow's message that says what happened; the others say where."""
    lines = [line.strip() for line in message.splitlines()]
    where = ("Graph execution error", "Detected at node", 'File "', "Node:", "<stack traces")
    causes = [line for line in lines if line and not line.startswith(where)]
    return [*causes, *lines, message][0]


class Command(click.Command):
    def invoke(self, context):
        with clear_errors():
            if context.obj is not None:
                # The imports that the body needs and the help does not: see keras_mt_command.
                context.obj(
                    of_export=self.name == "translate" and is_export(context.params["model"])
                )
            return super().invoke(context)
