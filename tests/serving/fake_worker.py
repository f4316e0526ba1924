"""A model that is a function, for the worker processes of tests."""

import multiprocessing
import os
import signal
import time

import keras_mt_command

if multiprocessing.parent_process():  # In a worker: as in `keras_mt_command.load_worker`.
    keras_mt_command._light_package()

from keras_mt.errors import InputError
from keras_mt.serving.worker import Answer, Facts
from keras_mt.translation.results import Hypothesis


def load(path):
    if path.endswith("broken"):
        raise InputError(f"{path} is no model")
    if path.endswith("deadly"):
        os.kill(os.getpid(), signal.SIGKILL)
    return Facts(os.getpid(), [("en", "de")], [], True, True, True, 8)


def translate(jobs):
    return [_answer(job.text) for job in jobs]


def _answer(text):
    kind, _, number = text.partition(" ")
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "sleep":
        time.sleep(float(number))
    if kind == "pid":
        text = str(os.getpid())
    return Answer([Hypothesis(text.upper(), 0.0)])
