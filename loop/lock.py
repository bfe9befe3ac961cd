"""The lock of a run directory: two processes cannot write one run.

Held by a kernel lock (flock) on `lock.json`, which a killed process gives up at once, and by a
heartbeat in it, for file systems that do not pass kernel locks between machines.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from sexpgpu.diagnostics.codes import system as codes
from sexpgpu.diagnostics.model import Diagnostic
from sexpgpu.loop.failure import failure, warning

FILE = "lock.json"
STALE = 60.0  # seconds without a heartbeat

_JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "SEXPGPU_JOB_ID")


def job_id(environment: Mapping[str, str] = os.environ) -> str | None:
    """The scheduler's id of this job, which a requeued job keeps."""
    for variable in _JOB_VARIABLES:
        if environment.get(variable):
            return f"{variable}={environment[variable]}"
    return None


def _machine() -> str:
    """This boot of this machine: flock tells the truth among its processes."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return socket.gethostname()


class RunLock:
    """A held lock. `warning` says what was taken over, if anything; `lost` tells whether another
    process has taken it over since."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, FILE)
        self.warning: Diagnostic | None = None
        self.lost = False
        self._fd = self._claim()
        self._mine = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "job": job_id(),
            "machine": _machine(),
            "started": time.time(),
        }
        self._write()

    def beat(self) -> None:
        """Renew the heartbeat, unless the lock is no longer ours."""
        try:
            self.lost = self.lost or os.stat(self._path).st_ino != os.fstat(self._fd).st_ino
            holder = _parsed(os.pread(self._fd, 4096, 0))
            if holder is not None and holder.get("started") != self._mine["started"]:
                self.lost = True
            if not self.lost:
                self._write()
        except FileNotFoundError:
            self.lost = True
        except OSError:
            pass  # a full disk or a server away: the heartbeat ages, the run goes on

    def release(self) -> None:
        if not self.lost:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        os.close(self._fd)

    def _claim(self) -> int:
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise self._held(_parsed(os.pread(fd, 4096, 0)) or {}) from None
                except OSError:
                    pass  # no kernel locks here: the heartbeat decides
                # another process may have released, and so removed, the file meanwhile
                if not os.path.exists(self._path) or not os.path.samestat(
                    os.stat(self._path), os.fstat(fd)
                ):
                    os.close(fd)
                    continue
                holder = _parsed(os.pread(fd, 4096, 0))
                if holder is not None:
                    self._judge(holder)
                return fd
            except Exception:
                os.close(fd)
                raise

    def _judge(self, holder: Mapping[str, Any]) -> None:
        """Whether a lock that was left behind may be taken over."""
        age = _age(holder)
        same_job = holder.get("job") is not None and holder.get("job") == job_id()
        if holder.get("machine") != _machine() and not same_job and age < STALE:
            raise self._held(holder)
        self.warning = warning(
            codes.W_CKPT_003,
            f"process {holder.get('pid')} on {holder.get('host')} left its lock; taken over",
            _told(age),
        )

    def _held(self, holder: Mapping[str, Any]) -> Exception:
        age = _age(holder)
        return failure(
            codes.E_CKPT_007,
            f"process {holder.get('pid')} on {holder.get('host')} is writing "
            f"{os.path.dirname(self._path)}",
            _told(age),
            fix=f"if that process is gone, remove {self._path}" if age < -STALE else None,
        )

    def _write(self) -> None:
        data = json.dumps({**self._mine, "heartbeat": time.time()}).encode() + b"\n"
        os.pwrite(self._fd, data, 0)
        os.ftruncate(self._fd, len(data))


def _age(holder: Mapping[str, Any]) -> float:
    """Seconds since the heartbeat of a lock; without end where it has none."""
    beat = holder.get("heartbeat")
    return time.time() - beat if isinstance(beat, int | float) else math.inf


def _told(age: float) -> str:
    if age < 0:
        return f"its last heartbeat was {-age:.0f} s from now: the clocks of the machines differ"
    return f"its last heartbeat was {age:.0f} s ago" if age < math.inf else "it has no heartbeat"


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
