"""What must hold on a CUDA device, in one run of under six minutes.

    python benchmarks/gpu_check.py [--out report.json] [--quick]

Needs Python 3.11+, jax with CUDA, NumPy, Orbax and click, and no network; the product is imported
from the checkout this file lies in. Prints one line a check and ends with `N passed, M failed`.
Exit: 0 all passed, 1 something failed, 5 no CUDA device here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
EXAMPLES = ROOT / "examples"
BUDGET_S = 340.0

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("line.sx", {}),
    ("digits.sx", {"steps": 20}),
    ("digits-conv.sx", {"steps": 20}),
    ("gpt-char.sx", {"steps": 20, "layers": 2, "heads": 4, "width": 64, "context": 64, "batch": 8}),
)
NANO = {"layers": 4, "heads": 4, "width": 128, "context": 128, "batch": 16}
SMALL = {"layers": 12, "heads": 12, "width": 768, "context": 256, "batch": 8}


class Report:
    """Checks and figures, printed as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.began = time.monotonic()

    def add(self, name: str, ok: bool | None, **figures: Any) -> None:
        self.rows.append({"check": name, "ok": ok, **figures})
        word = {True: "ok", False: "FAILED", None: "figure"}[ok]
        shown = "  ".join(f"{k} {v}" for k, v in figures.items())
        print(f"{word:7}{name}: {shown}", flush=True)

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        """Run a check; what it raises is a failed check, not the end."""
        if time.monotonic() - self.began > BUDGET_S:
            self.add(name, False, reason="no time was left")
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - every check must report
            self.add(name, False, error=f"{type(error).__name__}: {str(error)[:300]}")


def has_cuda() -> bool:
    import jax

    try:
        return bool(jax.devices("cuda"))
    except RuntimeError:
        return False


def train(file: str, knobs: dict[str, Any], device: str, steps: int | None = None) -> Any:
    import sexpgpu as sx

    experiment = sx.compile(EXAMPLES / file, knobs=knobs)
    with tempfile.TemporaryDirectory() as runs:
        run = experiment.run(device=device, runs=runs, steps=steps)
        return {n: s.values for n, s in run.metrics.items()}, run.parameters


def examples_agree(report: Report) -> None:
    import numpy as np

    for file, knobs in CASES:

        def work(file: str = file, knobs: dict[str, Any] = knobs) -> None:
            (gpu, gpu_p), (cpu, cpu_p) = (train(file, knobs, d, 20) for d in ("cuda", "cpu"))
            loss = float(np.max(np.abs(gpu["train/loss"] / cpu["train/loss"] - 1)))
            worst = max(
                float(np.max(np.abs(gpu_p[k] - v)) / max(np.max(np.abs(v)), 1e-6))
                for k, v in cpu_p.items()
            )
            report.add(f"{file} on cuda and cpu", loss <= 1e-4, loss=loss, parameters=worst)

        report.attempt(f"{file} on cuda and cpu", work)


def true_f32(report: Report) -> None:
    import numpy as np

    import sexpgpu as sx

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((512, 512), np.float32) for _ in range(2))
    got = sx.function("(lambda (a b) (matmul a b))", device="cuda")(a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = float(np.max(np.abs(got - exact)) / np.max(np.abs(exact)))
    report.add("an f32 matmul is f32", error <= 1e-6, error=error)


HASH = """
import hashlib, sys
sys.path.insert(0, {root!r}); sys.path.insert(0, {here!r})
import gpu_check
_, parameters = gpu_check.train("gpt-char.sx", {knobs!r}, "cuda", 10)
digest = hashlib.sha256()
for path in sorted(parameters):
    digest.update(path.encode() + parameters[path].tobytes())
print(digest.hexdigest())
"""


def same_bits(report: Report) -> None:
    code = HASH.format(root=str(ROOT), here=str(Path(__file__).parent), knobs=dict(CASES[3][1]))
    hashes = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        for _ in range(2)
    ]
    report.add("two processes give the same bits", hashes[0] == hashes[1], hash=hashes[0][:16])


def product_speed(report: Report, name: str, knobs: dict[str, Any], steps: int) -> None:
    command = [
        sys.executable, "-m", "sexpgpu", "run", "examples/gpt-char.sx", "--device", "cuda",
        "--steps", str(steps), "--json", "--quiet", "--set", "drop=0.0",
        *(w for k, v in knobs.items() for w in ("--set", f"{k}={v}")),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run(
            [*command, "--runs", runs], capture_output=True, text=True, cwd=ROOT, check=False
        )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    trains = [e["metrics"] for e in events if e["kind"] == "train"]
    if done.returncode or not trains:
        report.add(name, False, exit=done.returncode, said=done.stderr[-300:])
        return
    rate = max(t["train/steps-per-second"] for t in trains)
    peak = max((t.get("memory/peak") or 0) for t in trains)
    report.add(name, None, step_ms=round(1e3 / rate, 3), peak_mib=round(peak / 2**20))


def peer_speed(report: Report, name: str, script: str, *flags: str) -> None:
    done = subprocess.run(
        [sys.executable, script, "--steps", "30", *flags],
        capture_output=True, text=True, cwd=ROOT / "benchmarks" / "peers", check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        report.add(name, None, not_run=reason[:160])
        return
    figures = json.loads(lines[-1])
    report.add(name, None, step_ms=round(figures["median_step_ms"], 3))


def speed(report: Report) -> None:
    for size, shape in (("nano", NANO), ("small", SMALL)):
        for precision in ("f32", "bf16"):
            title = f"GPT {size} {precision}"
            knobs = {**shape, "precision": f":{precision}"}
            report.attempt(
                title, lambda t=title, k=knobs: product_speed(report, f"{t}, sexpgpu", k, 60)
            )
            flags = ("--size", size, "--precision", precision, "--batch", str(shape["batch"]))
            for peer in ("jax_gpt.py", "torch_gpt.py"):
                report.attempt(
                    f"{title}, {peer}",
                    lambda t=title, p=peer, f=flags: peer_speed(report, f"{t}, {p}", p, *f),
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="write the report as JSON here")
    parser.add_argument("--quick", action="store_true", help="leave the timings out")
    options = parser.parse_args()
    if not has_cuda():
        print("no CUDA device here: nothing was checked")
        return 5
    report = Report()
    examples_agree(report)
    report.attempt("an f32 matmul is f32", lambda: true_f32(report))
    report.attempt("two processes give the same bits", lambda: same_bits(report))
    if not options.quick:
        speed(report)
    if options.out:
        Path(options.out).write_text(json.dumps(report.rows, indent=1), encoding="utf-8")
    passed = sum(r["ok"] is True for r in report.rows)
    failed = sum(r["ok"] is False for r in report.rows)
    print(f"{passed} passed, {failed} failed, {time.monotonic() - report.began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    sys.exit(main())
