"""What Ctrl-C does where something is kept."""

import os
import signal

import pytest

from spillcast.errors import is_interruption
from spillcast.interruptible import interrupts_reported

pytestmark = pytest.mark.usefixtures("signals_by_default")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_it_is_told_and_interrupts_nothing():
    with interrupts_reported() as reported:
        assert not reported.is_set()
        interrupt()
        interrupt()
        assert reported.is_set()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_where_python_makes_a_class_it_is_one_too():
    class Interrupted:
        def __set_name__(self, _owner, _name):
            raise KeyboardInterrupt

    with pytest.raises((RuntimeError, KeyboardInterrupt)) as raised:
        type("Made", (), {"attribute": Interrupted()})
    assert isinstance(raised.value, KeyboardInterrupt) or is_interruption(raised.value)
