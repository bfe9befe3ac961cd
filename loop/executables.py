"""The compiled steps of a run's stages, each made when it is first needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from sexpgpu.loop.feeds import Feed, reporting
from sexpgpu.loop.recorder import Recorder
from sexpgpu.loop.signals import Requests, interruptible
from sexpgpu.loop.stages import Program
from sexpgpu.loop.status import Status
from sexpgpu.lowering.backend import Backend, Compiled

_WATCHED = 0
"""In the place of a dispatch's number of steps: the executable that takes diagnostics."""


def ahead(backend: Backend, function: Callable[..., Any], types: Sequence[Any]) -> Future[Compiled]:
    """The executable of a step, compiled in a thread of its own for trees of those types, which
    are yet to come. A process that ends by itself waits for the thread."""
    coming: Future[Compiled] = Future()

    def work() -> None:
        try:
            coming.set_result(backend.compile(function, types))
        except BaseException as error:  # noqa: BLE001  raised again where the result is taken
            coming.set_exception(error)

    threading.Thread(target=work, name="sexpgpu-ahead").start()
    return coming


class Executables:
    """Gives executables of `(state, feed, constants)`; None when the run was asked to stop while
    one was being compiled: then `abandoned` is true, as that goes on in a thread of its own."""

    def __init__(
        self, backend: Backend, requests: Requests, status: Status, recorder: Recorder
    ) -> None:
        self.abandoned = False
        self._backend = backend
        self._requests = requests
        self._status = status
        self._recorder = recorder

    def steps(self, program: Program, feed: Feed, state: Any, constants: Any) -> Compiled | None:
        """That of a dispatch. It takes the state's memory for the new one."""
        step, k = program.step, feed.k
        return self._made(
            program, k, reporting(step, k), (state, feed.tree, constants), donate=(0,)
        )

    def watch(self, program: Program, feed: Feed, state: Any, constants: Any) -> Compiled | None:
        """That of the diagnostics of a step."""
        assert program.watching is not None
        take = program.watching.take
        return self._made(program, _WATCHED, take, (state, feed.tree, constants), donate=())

    def _made(
        self,
        program: Program,
        key: int,
        function: Callable[..., Any],
        examples: tuple[Any, ...],
        donate: Sequence[int],
    ) -> Compiled | None:
        compiled = program.compiled.get(key)
        if compiled is not None:
            return compiled
        began = time.perf_counter()
        self._status.update(state="compiling")
        make = lambda: self._backend.compile(function, examples, donate=donate)  # noqa: E731
        if key == 1 and program.coming is not None:
            make, program.coming = program.coming.result, None
        compiled = interruptible(make, self._requests)
        if compiled is None:
            self.abandoned = True
            return None
        program.compiled[key] = compiled
        self._recorder.clock.add("compile", time.perf_counter() - began)
        self._status.update(state="running")
        return compiled
