"""The Lisp beside others: SBCL (compiled to machine code), Hy, Sheaf and Python.

    python benchmarks/lisp.py                       every job, five rounds, a table in Markdown
    python benchmarks/lisp.py "fib 24" --rounds 9

Each language runs in a process of its own, which loads the programs, runs each once and then three
times for a tenth of a second or more, and counts CPU time; start-up does not count. Languages take
turns, round by round. The table has the medians over rounds of each process's median. Every answer
is checked.
PEERS_HY and PEERS_SHEAF name interpreters that have `hy` and `sheaf-lang`; no columns without.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from lisp_jobs import JOBS, Job

ROOT = Path(__file__).parents[1]
REPEATS = 3

# What a Python process runs that is given {name: text} and REPEATS. `start` gives the function
# `job` that a text defines.
TIMER = """
import json, statistics, time
jobs, repeats = json.load(sys.stdin)
def measure(function):
    answer, taken, times = function(), [], 1
    while len(taken) < repeats:
        begin = time.process_time()
        for _ in range(times):
            function()
        seconds = time.process_time() - begin
        if seconds < 0.1:
            times *= 2
        else:
            taken.append(seconds / times)
    return [statistics.median(taken), answer]
print(json.dumps({name: measure(start(text)) for name, text in jobs.items()}))
"""
STARTS = {
    "sexpgpu": """
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
def start(text):
    session = Session(Limits(fuel=10**9, seconds=600))
    module = session.new_module("main")
    session.evaluate(text, module)
    return lambda: session.evaluate("(job)", module)[0]
""",
    "Hy": """
import hy, types
def start(text):
    module = types.ModuleType(f"jobs{len(sys.modules)}")
    sys.modules[module.__name__] = module
    module.hy = hy
    for form in hy.read_many(text):
        hy.eval(form, module.__dict__, module=module)
    return module.job
""",
    "Sheaf": """
from sheaf import Sheaf
def start(text):
    sheaf = Sheaf()
    sheaf.load(text)
    return lambda: int(sheaf.job())
""",
    "Python": """
def start(text):
    names = {}
    exec(text, names)
    return names["job"]
""",
}
SBCL = """
(setf *read-default-float-format* 'double-float)
(declaim (sb-ext:muffle-conditions warning sb-ext:compiler-note))
(format t "{{")
{jobs}
(format t "}}~%")
"""
SBCL_JOB = """
(with-input-from-string (in {text})
  (loop for form = (read in nil in) until (eq form in) do (eval form)))
(let ((answer (funcall 'job)) (taken nil) (times 1))
  (loop while (< (length taken) {repeats})
        do (let ((begin (get-internal-run-time)))
             (dotimes (i times) (funcall 'job))
             (let ((seconds (/ (float (- (get-internal-run-time) begin))
                               internal-time-units-per-second)))
               (if (< seconds 0.1)
                   (setf times (* 2 times))
                   (push (/ seconds times) taken)))))
  (format t "~a\\"{name}\\": [~f, ~a]" {comma} (nth {middle} (sort taken #'<)) answer))
"""


def quoted(text: str) -> str:
    """A string as SBCL reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def sbcl_program(texts: dict[str, str]) -> str:
    """A script that evaluates each text (SBCL compiles whatever it evaluates) and times its job."""
    jobs = [
        SBCL_JOB.format(
            text=quoted(text),
            repeats=REPEATS,
            name=name,
            comma='""' if number == 0 else '","',
            middle=REPEATS // 2,
        )
        for number, (name, text) in enumerate(texts.items())
    ]
    return SBCL.format(jobs="\n".join(jobs))


def interpreters() -> dict[str, str | None]:
    """The program of each language; None where it is not there."""
    return {
        "sexpgpu": sys.executable,
        "SBCL": shutil.which("sbcl"),
        "Hy": os.environ.get("PEERS_HY"),
        "Sheaf": os.environ.get("PEERS_SHEAF"),
        "Python": sys.executable,
    }


def text_of(job: Job, language: str) -> str | None:
    """The program of a job in a language, or None where it cannot be said."""
    if language in ("sexpgpu", "SBCL"):
        return job.lisp
    return {"Hy": job.hy, "Sheaf": job.sheaf, "Python": job.python}[language]


def run(language: str, program: str, jobs: list[Job]) -> dict[str, float]:
    """Seconds of each job in one process of a language."""
    texts = {job.name: text for job in jobs if (text := text_of(job, language)) is not None}
    if not texts:
        return {}
    if language == "SBCL":
        command = [program, "--noinform", "--no-userinit", "--script", "/dev/stdin"]
        given = sbcl_program(texts)
    else:
        command = [program, "-c", f"import sys\n{STARTS[language]}{TIMER}"]
        given = json.dumps([texts, REPEATS])
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment |= {"PYTHONPATH": path} if language == "sexpgpu" else {}
    if language in ("Hy", "Sheaf"):
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{language}: exit {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    for job in jobs:
        if job.name in found and found[job.name][1] != job.answer:
            raise RuntimeError(f"{language}, {job.name}: {found[job.name][1]}, not {job.answer}")
    return {name: seconds for name, (seconds, _) in found.items()}


def table(jobs: list[Job], taken: dict[str, dict[str, list[float]]]) -> str:
    """Milliseconds, and how many times those of sexpgpu the others take, as Markdown."""
    others = [language for language in taken if language != "sexpgpu"]
    lines = [
        f"| job | sexpgpu ms |{''.join(f' {other} ms | ratio |' for other in others)}",
        f"| --- | ---: |{' ---: | ---: |' * len(others)}",
    ]
    for job in jobs:
        ours = statistics.median(taken["sexpgpu"][job.name])
        cells = [job.name, f"{1e3 * ours:.1f}"]
        for other in others:
            times = taken[other].get(job.name)
            if times is None:
                cells += ["", ""]
                continue
            theirs = statistics.median(times)
            cells += [f"{1e3 * theirs:.{3 if theirs < 1e-3 else 1}f}", f"{theirs / ours:.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    names = [job.name for job in JOBS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    unknown = set(given.jobs) - set(names)
    if unknown:
        parser.error(f"no job {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    jobs = [job for job in JOBS if not given.jobs or job.name in given.jobs]
    programs = {language: path for language, path in interpreters().items() if path is not None}
    taken: dict[str, dict[str, list[float]]] = {language: {} for language in programs}
    for _ in range(given.rounds):
        for language, program in programs.items():
            for name, seconds in run(language, program, jobs).items():
                taken[language].setdefault(name, []).append(seconds)
    print(table(jobs, taken))
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
