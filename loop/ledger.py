"""What a run writes down of itself: the events and the status, from its opening to its close."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sexpgpu.diagnostics.codes.system import E_INT_001
from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.ir.document import Document
from sexpgpu.ir.graph import Graph
from sexpgpu.loop import checkpoint, directory
from sexpgpu.loop.events import EventLog
from sexpgpu.loop.failure import FAILED, as_json, exit_status
from sexpgpu.loop.lock import RunLock
from sexpgpu.loop.resume import Start
from sexpgpu.loop.run import RunResult
from sexpgpu.loop.status import Status
from sexpgpu.lowering.backend import Backend
from sexpgpu.ops.totals import graph_cost


class Ledger:
    """The open events and status of a run directory whose lock is held."""

    def __init__(
        self,
        run_directory: str,
        lock: RunLock,
        document: Document,
        ir_hash: str,
        listener: Callable[[dict[str, Any]], None],
        begun: Callable[[int, int], None],
    ) -> None:
        self._document = document
        self._ir_hash = ir_hash
        self._directory = run_directory
        self.events = EventLog(run_directory, listener)
        self._begun = begun  # told the seq up to which the log was kept, and the next one
        manifest = document.manifest
        self.status = Status(
            run_directory,
            lock.beat,
            run=document.run.name,
            ir=ir_hash,
            entry=manifest.get("entry"),
            selection=manifest.get("selection", {}),
        )

    def opened(
        self,
        machine: Mapping[str, Any],
        steps: int,
        parameters: int,
        init_from: Mapping[str, Any] | None,
        warnings: Sequence[Diagnostic],
    ) -> None:
        """The `open` event of a log that begins here. What an earlier start that never saved
        anything has left is set aside."""
        document = self._document
        cut = self.events.cut({"seq": 0, "offset": 0})
        self._begun(0, self.events.mark()["seq"])
        self.events.append(
            "open",
            0,
            run=document.run.name,
            directory=self._directory,
            manifest=document.manifest,
            ir=self._ir_hash,
            configuration=document.run.to_json(),
            steps=steps,
            parameters=parameters,
            init_from=init_from,
            machine=machine,
            graphs={name: _cost(graph) for name, graph in document.graphs.items()},
        )
        self.events.keep_annotations(cut)
        self.warned(warnings, 0)

    def resumed(
        self,
        start: Start,
        machine: Mapping[str, Any],
        meta: Mapping[str, Any],
        step: int,
        steps: int,
    ) -> None:
        """The `resume` event; in the run's own log after going back to the checkpoint's place."""
        cut: list[dict[str, Any]] = []
        if not start.foreign and start.path is not None:
            cut = self.events.cut(meta["events"])
            self.events.keep_annotations(cut)
            self._begun(meta["events"]["seq"], self.events.mark()["seq"])
            checkpoint.set_aside(start.directory, step)
            lost = next((e for e in cut if e["kind"] == "checkpoint" and e["step"] == step), None)
            fields = lost or checkpoint.event_fields(start.path)
            own = ("kind", "seq", "time", "step")
            self.events.append(
                "checkpoint", step, **{k: v for k, v in fields.items() if k not in own}
            )
        self.events.append(
            "resume",
            step,
            checkpoint=start.path,
            cut=len(cut),
            steps=steps,
            manifest=self._document.manifest,
            manifest_before=meta["manifest"],
            ir=self._ir_hash,
            ir_before=meta["experiment"]["ir"],
            machine=machine,
        )
        self.warned(start.warnings, step)

    def warned(self, warnings: Sequence[Diagnostic], step: int) -> None:
        for found in warnings:
            self.events.warn(found, step)

    def ended(self, result: RunResult, reason: str, error: BaseException | None) -> None:
        """The last status and the `close` event: the truth about how the run ended."""
        directory.release_reserve(self._directory)
        fields: dict[str, Any] = {"reason": reason, "summary": result.summary}
        status = result.exit_status
        if isinstance(error, SxError):
            fields["diagnostic"] = as_json(error.diagnostics[0])
            status = exit_status(error)
        elif isinstance(error, KeyboardInterrupt):
            fields["reason"] = "interrupted"
        elif error is not None:
            fault = f"internal fault: {type(error).__name__}: {error}"
            fields["diagnostic"] = as_json(Diagnostic(E_INT_001, fault))
            status = FAILED
        state = result.state if error is None else "failed"
        eta = 0 if state == "finished" else None
        self.status.update(state=state, step=result.step, eta_s=eta, **fields)
        try:
            self.events.append("close", result.step, exit=status, **fields)
        except SxError:
            if error is None:  # else the first failure is the one to tell of
                raise

    def close(self) -> None:
        self.events.close()
        self.status.close()


def machine_of(backend: Backend, peak_flops: float | None) -> dict[str, Any]:
    """The device, its peak in FLOPs a second where that is known, and versions."""
    return {**backend.describe(), "peak_flops": peak_flops, "python": sys.version.split()[0]}


def _cost(graph: Graph) -> dict[str, int]:
    flops, moved = graph_cost(graph)
    return {"nodes": len(graph.nodes), "flops": flops, "bytes": moved}
