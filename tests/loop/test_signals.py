"""Requests from outside, also while the main thread is busy in C."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sexpgpu.loop import signals
from sexpgpu.loop.signals import Requests, interruptible, listening


def eventually(condition) -> bool:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_first_stop_signal_asks(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    requests = Requests()
    with listening(requests):
        assert not requests.stopping()
        os.kill(os.getpid(), number)
        assert eventually(requests.stopping)
        assert requests.stop == number.name
        assert requests.take_received() == [number.name]
        assert requests.take_received() == []
    assert signal.getsignal(number) is before
    assert not [t for t in threading.enumerate() if t.name == "sexpgpu-signals"]


def test_a_terminal_that_is_closed_tells_so_more_than_once() -> None:
    """The shell, and the system: that is one wish to stop."""
    requests = Requests()
    assert not requests.receive(signal.SIGHUP)
    assert not requests.receive(signal.SIGHUP)
    assert requests.stop == "SIGHUP"
    assert requests.receive(signal.SIGTERM)


def test_under_nohup_a_terminal_does_not_matter() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        requests = Requests()
        with listening(requests):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGUSR1)  # which comes after it
            assert eventually(requests._checkpoint.is_set)
        assert not requests.stopping()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_usr1_asks_for_a_checkpoint() -> None:
    requests = Requests()
    with listening(requests):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert eventually(requests._checkpoint.is_set)
        assert requests.take_checkpoint()
        assert not requests.take_checkpoint()
        assert not requests.stopping()


CHILD = """
import sys, threading, time
from sexpgpu.loop.signals import Requests, listening
requests = Requests()
with listening(requests, lambda: print("last words", flush=True)):
    print("ready", flush=True)
    {busy}
"""


@pytest.mark.parametrize(
    "busy",
    [
        "threading.Lock().acquire(); threading.Event().wait()",
        # a long call that never comes back to the interpreter, as a compilation is
        "import ctypes; ctypes.CDLL(None).sleep(60); ctypes.CDLL(None).sleep(60)",
    ],
)
def test_the_second_stop_signal_ends_the_process(busy: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(busy=busy)],
        cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
        assert child.stdout.read() == "last words\n"


def test_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: now[0]))
    requests = Requests(time_limit=60.0)
    now[0] += 56.0
    assert not requests.stopping()
    now[0] += 1.5  # 5% are left
    assert requests.stop == "time limit"
    requests = Requests(time_limit=60.0)
    requests.begin_dispatch()
    now[0] += 5.0
    requests.end_dispatch()
    requests.note_save(4.0)
    now[0] += 36.0
    assert not requests.stopping()
    now[0] += 1.5  # 42.5 of 60 s: two of each take 18 s
    assert requests.stop == "time limit"


def test_interruptible() -> None:
    requests = Requests()
    assert interruptible(lambda: 7, requests) == 7
    with pytest.raises(KeyError):
        interruptible(lambda: {}["x"], requests)
    release = threading.Event()
    threading.Timer(0.1, requests.receive, [signal.SIGTERM]).start()
    began = time.monotonic()
    assert interruptible(lambda: release.wait(120), requests) is None
    assert time.monotonic() - began < 60
    release.set()


def test_outside_the_main_thread_nothing_is_installed() -> None:
    handlers: list[object] = []

    def work() -> None:
        with listening(Requests()):
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGTERM)]
