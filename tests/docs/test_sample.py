"""`examples/sample.py` on a small GPT: it goes on with the prompt, alike for the same seed."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

import sexpgpu as sx

ROOT = Path(__file__).parents[2]
SMALL = {"layers": 1, "heads": 2, "width": 16, "context": 16, "batch": 2, "steps": 2}


def test_sampling(tmp_path: Path) -> None:
    experiment = sx.compile(ROOT / "examples" / "gpt-char.sx", knobs=SMALL)
    experiment.run(runs=str(tmp_path), slug="gpt", device="interp")
    script = ROOT / "examples" / "sample.py"
    spec = spec_from_file_location("sample", script)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    run = sx.open_run(tmp_path / "gpt", device="interp")
    text = module.sample(run, b"In the beginning", 12, 0.8, seed=1)
    assert text.startswith(b"In the beginning")
    assert len(text) == 16 + 12
    assert module.sample(run, b"In the beginning", 12, 0.8, seed=1) == text
    # Temperature 0 is the likeliest byte of the model itself, whatever fills the window.
    (first,) = module.sample(run, b"And", 1, 0, seed=1)[3:]
    window = np.full((1, 17), 7, np.uint8)
    window[0, :3] = list(b"And")
    assert first == run.predict(tokens=window)[0, 2].argmax()
    words = [str(tmp_path / "gpt"), "--length", "3", "--device", "interp"]
    done = subprocess.run(
        [sys.executable, str(script), *words],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip
    assert done.stdout.startswith("In the beginning")
