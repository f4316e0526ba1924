import multiprocessing
import os
import time

import pytest

from keras_mt.documents import leases as module
from keras_mt.documents.leases import Leases, share

SECONDS = 0.6


@pytest.fixture
def elsewhere(monkeypatch):
    """Each process is as on a machine of its own: none sees whether another is alive."""
    monkeypatch.setattr(module, "_machine", lambda: f"machine-{os.getpid()}")


def hold(path, ready, seconds):
    with Leases(seconds) as leases:
        assert leases.acquire(path)
        ready.set()
        time.sleep(60)


def holder(path, seconds=SECONDS):
    """A process that has the lease, until it is killed."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=hold, args=(path, ready, seconds), daemon=True)
    process.start()
    assert ready.wait(20)
    return process


def seconds_until(leases, path, most=20):
    start = time.monotonic()
    while not leases.acquire(path):
        assert time.monotonic() - start < most
        time.sleep(0.02)
    return time.monotonic() - start


def test_one_holds_it_until_it_gives_it_back(tmp_path):
    path = tmp_path / "a.lease"
    with Leases() as ours, Leases() as theirs:
        assert ours.acquire(path) and not theirs.acquire(path)
        theirs.release(path)  # It is not theirs.
        assert not theirs.acquire(path)
        ours.release(path)
        assert theirs.acquire(path)
    assert not path.exists()


def test_that_of_a_process_that_died_is_taken_at_once_on_its_machine(tmp_path):
    path = tmp_path / "a.lease"
    process = holder(path, seconds=60)
    with Leases(60) as leases:
        assert not leases.acquire(path)
        process.kill()
        process.join()
        assert seconds_until(leases, path) < 10


def test_that_of_a_machine_that_died_is_taken_when_it_is_not_renewed(tmp_path, elsewhere):
    path = tmp_path / "a.lease"
    process = holder(path)
    with Leases(SECONDS) as leases:
        end = time.monotonic() + 3 * SECONDS
        while time.monotonic() < end:  # It renews it.
            assert not leases.acquire(path)
            time.sleep(0.02)
        process.kill()
        process.join()
        assert SECONDS / 2 < seconds_until(leases, path) < 10


def test_who_lost_it_does_not_take_it_back(tmp_path, elsewhere):
    path = tmp_path / "a.lease"
    with Leases(60) as ours:
        assert ours.acquire(path)
        with Leases(SECONDS) as theirs:
            ours._owner = "asleep"  # So it is not renewed.
            seconds_until(theirs, path)
            ours.release(path)
            assert theirs._owner in path.read_text()


class Work:
    def __init__(self, folder, name):
        self.marker, self.lease, self.times = folder / name, folder / f"{name}.lease", 0

    def is_done(self):
        return self.marker.exists()

    def taken(self):
        pass

    def work(self):
        self.times += 1
        self.marker.write_text("")


def test_share_does_what_is_left_and_yields_all(tmp_path):
    tasks = [Work(tmp_path, str(i)) for i in range(5)]
    tasks[1].marker.write_text("")
    process = holder(tasks[3].lease)
    with Leases(SECONDS) as leases:
        found = []
        for task in share(tasks, leases):
            found.append(task)
            if len(found) == 4:
                assert tasks[3] not in found
                process.kill()
                process.join()
    assert found == [tasks[i] for i in (0, 1, 2, 4, 3)]
    assert [task.times for task in tasks] == [1, 0, 1, 1, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == list("01234")
