"""Ctrl-C while a recording is being written."""

import os
import signal
import threading

import pytest

from cases import cases
from harness import until
from spillcast import interruptible
from spillcast.errors import is_interruption
from spillcast.interruptible import interrupts_reported, until_answered

pytestmark = pytest.mark.usefixtures("signals_by_default")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_interrupts_are_reported_and_raise_nothing():
    with interrupts_reported() as reported:
        assert not reported
        interrupt()
        interrupt()
        assert reported == [signal.SIGINT, signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        interrupt()


@cases("number", [signal.SIGINT, signal.SIGTERM])
def test_work_interrupted_at_any_moment_is_cancelled(monkeypatch, number):
    """Each of many tasks interrupts itself, from the start of its thread to the last wait."""
    monkeypatch.setattr(interruptible, "TICK_S", 1e-4)
    for _ in range(200):
        cancelled, ended = threading.Event(), []

        def work(cancelled=cancelled, ended=ended):
            signal.raise_signal(number)
            ended.append(cancelled.wait())

        handler = signal.signal(number, interruptible.interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                interruptible.run_interruptibly(work, cancelled.set)
            assert signal.getsignal(number) == interruptible.interrupt
        finally:
            signal.signal(number, handler)
        assert ended == [True]


def test_signal_handlers_of_the_caller_stay_in_place():
    with interrupts_reported() as reported:

        def work():
            signal.raise_signal(signal.SIGTERM)
            # The main thread handles it sooner or later.
            until(lambda: reported, "the signal")
            return 7

        assert interruptible.run_interruptibly(work, lambda: None) == 7
    assert reported == [signal.SIGTERM]


def test_an_interrupt_during_the_creation_of_a_class_is_recognised():
    class Interrupted:
        def __set_name__(self, _owner, _name):
            raise KeyboardInterrupt

    with pytest.raises((RuntimeError, KeyboardInterrupt)) as raised:
        type("Made", (), {"attribute": Interrupted()})
    assert isinstance(raised.value, KeyboardInterrupt) or is_interruption(raised.value)


def test_a_verb_runs_if_no_thread_can_start(monkeypatch):
    """As at the limit of processes."""
    attempts = []

    def refused(thread):
        attempts.append(thread)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    until_answered(["/"])
    assert len(attempts) == 1
