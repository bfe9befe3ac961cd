"""Evaluation of single forms, each in a fresh environment, for the conformance protocol.

{"values": ["printed", …], "output": "what it printed"}
{"error": {"code": "E-…", "message": "…", "condition": ["type-error", "error", …]}}
"""

from __future__ import annotations

from typing import Any

from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.calls import values_list
from sexpgpu.lisp.conditions import precedence
from sexpgpu.lisp.control import CATCH_TAGS
from sexpgpu.lisp.errors import LimitError, LispError
from sexpgpu.lisp.journal import Journal, activate
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import STATE, Limits
from sexpgpu.reader.failures import ReadFailure, TooDeep
from sexpgpu.reader.reader import END, Reader
from sexpgpu.source import Source

BATCH_LIMITS = Limits(fuel=20_000_000, seconds=8.0)


class Batch:
    """An evaluator of forms that do not see each other. Use within one thread."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or BATCH_LIMITS
        self.session = Session(self.limits)

    def evaluate(self, text: str) -> dict[str, Any]:
        """The answer for one form, on a thread with a big stack."""
        return self.session.run(lambda: self.answer(text))

    def answer(self, text: str) -> dict[str, Any]:
        """The answer for one form. The caller runs it under `session.run`, so that a stream of
        forms needs one thread."""
        session = self.session
        journal = Journal()
        outer = activate(journal)
        session.diagnostics.clear()
        STATE.reset(self.limits)
        CATCH_TAGS.clear()
        module = session.new_module("<form>")
        saved = STATE.module
        STATE.module = module
        try:
            STATE.output.take()
            values = self._values(text, module)
            return {"values": values, "output": STATE.output.take()}
        except LispError as error:
            answer = self.refusal(session.report(error))
            answer["error"]["condition"] = precedence(error.condition)
            return answer
        except (LimitError, ReadFailure, TooDeep) as error:
            return self.refusal(session.report(error))
        except SxError as error:
            return self.refusal(error.diagnostics[0])
        except RecursionError:
            return self.refusal(session.report(LimitError("depth", STATE.depth)))
        except Exception as fault:  # noqa: BLE001  (the stream goes on; the code says it is ours)
            from sexpgpu.diagnostics.codes.system import E_INT_001

            message = f"internal fault: {type(fault).__name__}: {fault}"
            return {"error": {"code": E_INT_001.id, "message": message}}
        finally:
            STATE.module = saved
            STATE.stack.clear()
            journal.swap()
            activate(outer)

    def _values(self, text: str, module: Any) -> list[str]:
        from sexpgpu.lisp.printer import prin1_text
        from sexpgpu.lisp.toplevel import evaluate_top_level

        session = self.session
        reader = Reader(
            Source("<form>", text), module, session.features, nesting=self.limits.nesting
        )
        result: list[Any] = []
        while (form := reader.read()) is not END:
            session.deferred.settle()
            result = values_list(evaluate_top_level(form))
        return [prin1_text(value) for value in result]

    @staticmethod
    def refusal(diagnostic: Diagnostic) -> dict[str, Any]:
        """The answer that is an error."""
        return {"error": {"code": diagnostic.code.id, "message": diagnostic.headline}}
