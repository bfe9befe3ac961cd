"""How a run says that it cannot go on: coded errors, and the exit status of each.

Knows nothing of what failed. Status: see docs/cli.md (3 the run, its data, checkpoint or store;
4 non-finite numbers; 5 this machine; 1 anything the compiler would have said).
"""

from __future__ import annotations

import errno

from sexpgpu.diagnostics.codes import run as run_codes
from sexpgpu.diagnostics.codes import system as system_codes
from sexpgpu.diagnostics.model import Code, Diagnostic, Note, SxError

DONE = 0
FAILED = 3
NON_FINITE = 4
MACHINE = 5
STOPPED = 75
KILLED = 130

_BY_FAMILY = {
    "RUN": FAILED, "DATA": FAILED, "EVAL": FAILED, "METRIC": FAILED, "CKPT": FAILED,
    "STORE": FAILED, "DIST": FAILED, "INT": FAILED, "DEV": MACHINE,
}  # fmt: skip


def failure(code: Code, headline: str, *notes: str, fix: str | None = None) -> SxError:
    """An error to raise: the headline stands alone, each note is a further sentence."""
    return SxError(Diagnostic(code, headline, (), [Note(text) for text in notes], fix))


def warning(code: Code, headline: str, *notes: str) -> Diagnostic:
    """A warning to hand to the run's reporter."""
    return Diagnostic(code, headline, (), [Note(text) for text in notes])


def exit_status(error: SxError) -> int:
    """The process's exit status for what stopped a run."""
    code = error.diagnostics[0].code
    if code in (run_codes.E_RUN_031, run_codes.E_RUN_032):
        return NON_FINITE
    return _BY_FAMILY.get(code.id.split("-")[1], 1)


def device_failure(error: Exception) -> SxError | None:
    """The coded error for what a device or its compiler reported, or for memory that ran out;
    None for anything else. Known by the exception's module, so that jax need not be loaded."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0][:300]
    of_device = type(error).__module__.partition(".")[0] in ("jax", "jaxlib")
    out_of_memory = "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower()
    if isinstance(error, MemoryError) or (of_device and out_of_memory):
        return failure(system_codes.E_DEV_004, f"out of memory: {first}")
    if of_device and isinstance(error, RuntimeError):
        return failure(system_codes.E_DEV_006, f"the device failed: {first}")
    return None


_BY_ERRNO = {
    errno.ENOENT: system_codes.E_STORE_001,
    errno.EACCES: system_codes.E_STORE_002,
    errno.EPERM: system_codes.E_STORE_002,
    errno.EROFS: system_codes.E_STORE_002,
    errno.ENOSPC: system_codes.E_STORE_004,
    errno.EDQUOT: system_codes.E_STORE_004,
}


def system_failure(error: OSError, what: str | None = None) -> SxError:
    """The coded error for what the operating system refused; `what` could not be done."""
    code = _BY_ERRNO.get(error.errno or 0, system_codes.E_STORE_006)
    return failure(code, f"{what or error.filename or 'a file'}: {error.strerror or error}")


def as_json(diagnostic: Diagnostic) -> dict[str, object]:
    """What status and events record of a diagnostic: code, severity, message, notes, fix."""
    return {
        "code": diagnostic.code.id,
        "severity": diagnostic.severity,
        "message": diagnostic.headline,
        "notes": [note.text for note in diagnostic.notes],
        "fix": diagnostic.fix or diagnostic.code.fix,
    }
