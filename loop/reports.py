"""What the steps in flight tell: read a step late, so that the host never stalls the device; added
up; told in `train` and `diagnostic` events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sexpgpu.diagnostics.codes.run import W_RUN_031
from sexpgpu.ir.document import Document
from sexpgpu.loop.events import EventLog
from sexpgpu.loop.failure import warning
from sexpgpu.loop.recorder import Recorder
from sexpgpu.loop.report import Told
from sexpgpu.loop.signals import Requests
from sexpgpu.loop.stages import Program
from sexpgpu.lowering.backend import Backend


class NonFiniteError(Exception):
    """The finite guard has stopped the run: which step, and what its report said."""

    def __init__(self, step: int, values: Mapping[str, Told]) -> None:
        super().__init__(f"step {step}")
        self.step = step
        self.values = dict(values)


class _Dispatched(NamedTuple):
    """`k` steps from `step` that were started: where the device puts their report, and the
    diagnostics of the first."""

    program: Program
    step: int
    k: int
    report: Any
    watched: Any


class Reports:
    """The reports of a run, in the order of its steps. `last`: the newest value of every series,
    evaluations' too."""

    def __init__(
        self,
        document: Document,
        backend: Backend,
        recorder: Recorder,
        events: EventLog,
        requests: Requests,
    ) -> None:
        self.last: dict[str, Any] = {}
        self._backend = backend
        self._recorder = recorder
        self._events = events
        self._requests = requests
        self._ignore = document.run.finite == "ignore"
        self._has_stages = len(document.loader(document.run.train).stages) > 1
        self._unread: deque[_Dispatched] = deque()

    def add(self, program: Program, step: int, k: int, report: Any, watched: Any = None) -> None:
        """Take a dispatch of `k` steps from `step` on."""
        self._unread.append(_Dispatched(program, step, k, report, watched))

    def read(self, waited: float, leave: int = 0) -> None:
        """Read the oldest ones, all but so many. `waited`: seconds that the run has waited for data
        so far. Raises NonFiniteError."""
        while len(self._unread) > leave:
            self._read(self._unread.popleft(), waited)

    def tell(self, program: Program, step: int, counters: Mapping[str, int], waited: float) -> None:
        """The train event of the interval that ends after that many steps."""
        series = self._recorder.results(counters, waited, self._backend.memory_peak())
        self.last |= series
        staged = {"stage": program.name} if self._has_stages else {}
        self._events.append("train", step, metrics=series, **staged)

    def _read(self, one: _Dispatched, waited: float) -> None:
        program, first, k, report, watched = one
        host = self._backend.get(report)
        self._requests.end_dispatch()
        if watched is not None and program.watching is not None:
            told = program.watching.told(self._backend.get(watched))
            self._events.append("diagnostic", first + 1, values=told)
        for i, vector in enumerate(host["packed"].reshape(k, -1)):
            done = first + i + 1
            values = program.step.layout.unpack(vector)
            finite = self._recorder.add(values)
            if not finite and not self._ignore:
                if values["halted"]:
                    raise NonFiniteError(first + i, values)
                self._skipped(first + i, values)
            if self._recorder.ends_interval(done):
                totals = host["counter"].items()
                self.tell(program, done, {n: int(np.reshape(t, k)[i]) for n, t in totals}, waited)

    def _skipped(self, step: int, values: Mapping[str, Told]) -> None:
        norm = values["grad-norm"]
        what = f"step {step} skipped: loss {values['loss']}, gradient norm {norm}"
        self._events.warn(warning(W_RUN_031, what), step + 1)
