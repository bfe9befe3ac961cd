"""`explain`: schedules before a run, memory, draws, casts, lowering reports, the page."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
LINE = str(ROOT / "examples" / "line.sx")
DIGITS = str(ROOT / "examples" / "digits.sx")


def test_a_schedule_is_that_of_the_run(sx, tmp_path: Path) -> None:
    """The values shown are the learning rates that a run reports, and the formula's."""
    words = ("--set", "steps=30")
    (found,) = sx("explain", DIGITS, *words, "--json").json["schedules"]
    assert (found["group"], found["name"], found["steps"]) == ("default", "lr", list(range(30)))
    warmup = 3
    for step, value in zip(found["steps"], found["values"], strict=True):
        part = (step - warmup) / (30 - warmup)
        wanted = step / warmup if step < warmup else (1 + math.cos(math.pi * part)) / 2
        assert value == pytest.approx(3e-3 * wanted, rel=1e-5, abs=1e-9)
    import sexpgpu as api

    run = api.compile(DIGITS, knobs={"steps": 30}).run(device="interp", runs=str(tmp_path))
    reported = run.metrics["optim/default/lr"]
    # :log-every is more than the run is long: one report, the mean over all its steps.
    assert reported.steps.tolist() == [30]
    assert reported.values[0] == pytest.approx(np.mean(found["values"]), rel=1e-6)
    text = sx("explain", DIGITS, *words).out
    assert "default/lr  ▁▃▆█" in text
    assert "0.003 at 3" in text


def test_memory_adds_up(sx) -> None:
    data = sx("explain", DIGITS, "--json").json
    memory, count = data["memory"], data["parameter_count"]
    assert memory["parameters"] == memory["gradients"] == 4 * count
    assert memory["optimizer"] == 8 * count
    assert memory["batch"] == 128 * (64 + 4)
    assert memory["live"] >= 4 * 128 * 128
    assert memory["total"] == sum(v for k, v in memory.items() if k != "total")


def test_live_memory_of_a_known_graph() -> None:
    from sexpgpu.explain.memory import live
    from sexpgpu.ir.graph import Builder
    from sexpgpu.ir.types import TensorType
    from sexpgpu.ops import infer

    b = Builder(infer)
    x = b.input("x", TensorType((100,), "f32"))
    y = b.emit("exp", x)  # 400 bytes
    z = b.emit("exp", y)  # y and z: 800, then y goes
    w = b.emit("add", z, x)  # z and w: 800
    assert live(b.finish("g", {"w": w})) == 800


def test_draws_and_casts(sx) -> None:
    data = sx("explain", DIGITS, "--json").json
    assert [draw["path"] for draw in data["draws"]] == ["body/0", "body/1"]
    assert all(draw["place"].endswith("digits.sx:39") for draw in data["draws"])
    gpt = str(ROOT / "examples" / "gpt-char.sx")
    words = ("--variant", "tiny", "--set", "layers=1", "--set", "precision=:bf16")
    casts = sx("explain", gpt, *words, "--json").json["casts"]
    assert {"f32", "bf16"} <= {c["to"] for c in casts}
    assert "Casts\n" in sx("explain", gpt, *words, "--casts").out


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_lowering(sx, platform: str) -> None:
    data = sx("explain", LINE, "--lowering", platform, "--json").json
    assert data["stablehlo"]["ops"]["dot_general"] >= 2
    compiled = data["compiled"]
    if compiled is None:
        assert platform == "cuda"
        assert "StableHLO is what" in data["notes"][0]
    else:
        assert sum(compiled["instructions"].values()) > 3
        memory = compiled["memory"]
        assert memory["total"] == (
            memory["argument"] + memory["output"] - memory["alias"] + memory["temp"]
        )
        assert memory["alias"] >= 8, "the state is donated: two parameters"
    assert f"lowered for {platform}" in sx("explain", LINE, "--lowering", platform).out


def test_a_gpu_that_is_described(sx, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XLA's compiler for CUDA the note says what to install, and StableHLO is left; with
    it the program is one for the described GPU, whose counts differ from this machine's CPU."""
    from importlib.util import find_spec

    from sexpgpu.lowering.xla import described

    if any(find_spec(f"jax_cuda{v}_plugin") for v in described.VERSIONS):
        found = sx("explain", LINE, "--lowering", "cuda", "--json").json["compiled"]
        assert "H200" in found["target"] or "this machine's" in found["target"]
        assert sum(found["fusions"].values()) >= 1
        return
    data = sx("explain", LINE, "--lowering", "cuda", "--json").json
    assert data["compiled"] is None
    assert "pip install 'sexpgpu[cuda-report]'" in data["notes"][0]
    # a plugin whose interface has changed is a note, too
    monkeypatch.setattr(described, "find_spec", lambda name: name)
    assert (
        "cannot compile for a GPU it does not have"
        in (sx("explain", LINE, "--lowering", "cuda", "--json").json["notes"][0])
    )


def test_fusions_are_counted_by_kind() -> None:
    """Lines as XLA writes them for GPUs and CPUs."""
    hlo = """
  %loop_add = f32[8]{0} fusion(%a, %b), kind=kLoop, calls=%fused_add
  %reduce = (f32[], f32[]) fusion(f32[8]{0} %a), kind=kInput, calls=%fused_reduce, metadata={x="y"}
  ROOT %gemm = f32[8,8]{1,0} fusion(%a), kind=kCustom, backend_config={GEMM}
  %other = f32[8]{0} add(%a, %b)
  %second = f32[8]{0} fusion(%other), kind=kLoop, calls=%fused_add.1
"""
    from sexpgpu.explain.lowering import fusions

    gemm = '"queue":"0","fusion_backend_config":{"kind":"__triton_gemm","config":{"block_m":"16"}}'
    hlo = hlo.replace("{GEMM}", f"{{{gemm}}}")
    assert fusions(hlo) == {"loop": 2, "input": 1, "triton_gemm": 1}


def test_the_first_batch_is_that_of_the_run(sx) -> None:
    """The records that the loader reads at step 0, seen by NumPy."""
    batch = sx("explain", DIGITS, "--json").json["batch"]
    with np.load(ROOT / "examples" / "data" / "digits-train.npz") as data:
        image, label = (data[n][batch["records"]] for n in ("image", "label"))
    fields = {field["name"]: field for field in batch["fields"]}
    assert len(batch["records"]) == 128
    assert len(set(batch["records"])) == 128
    assert fields["image"]["first"] == image[0].reshape(-1)[:8].tolist()
    assert fields["image"]["max"] == image.max()
    assert fields["image"]["mean"] == pytest.approx(image.mean())
    assert fields["label"]["shape"] == [128]
    assert fields["label"]["min"] == label.min()
    assert batch["problem"] is None
    gpt = str(ROOT / "examples" / "gpt-char.sx")
    (tokens,) = sx("explain", gpt, "--json", "--variant", "tiny").json["batch"]["fields"]
    text = (ROOT / "examples" / "data" / "kjv-train.txt").read_text("utf-8")
    assert tokens["text"] in text
    assert len(tokens["text"]) == 65


def test_numbers_that_are_none_are_said(sx, tmp_path: Path) -> None:
    values = np.array([[1.0], [np.nan], [3.0], [np.inf]], np.float32)
    np.savez(tmp_path / "x.npz", x=values, y=np.zeros((4, 1), np.float32))
    text = Path(LINE).read_text("utf-8")
    start, end = text.index("(inline"), text.index(":batch")
    (tmp_path / "n.sx").write_text(f'{text[:start]}(npz "x.npz")\n  :batch 2{text[end + 8 :]}')
    found = sx("explain", str(tmp_path / "n.sx"), "--json").json["batch"]
    (x,) = [field for field in found["fields"] if field["name"] == "x"]
    assert (x["nonfinite"], x["min"], x["max"], x["first"]) == (1, 1.0, 1.0, [1.0])
    assert "(1 not finite)" in sx("explain", str(tmp_path / "n.sx")).out


def test_data_that_is_not_here_is_no_failure(sx, tmp_path: Path) -> None:
    """An IR document is explained on a machine that does not have its data."""
    document = sx("ir", DIGITS, "--json").out.replace("digits-train.npz", "elsewhere-00.npz")
    (tmp_path / "digits.ir.json").write_text(document)
    found = sx("explain", str(tmp_path / "digits.ir.json"), "--json")
    assert found.code == 0
    assert found.json["batch"]["problem"]["code"] == "E-STORE-001"
    assert "not read here" in sx("explain", str(tmp_path / "digits.ir.json")).out


class Page(HTMLParser):
    """Collects tags and checks that they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_alone(sx, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert sx("explain", DIGITS, "--html", str(out)).code == 0
    page = Page()
    page.feed(out.read_text(encoding="utf-8"))
    assert page.open == []
    assert not [a for _, a in page.tags if "src" in a or "href" in a], "one file, nothing else"
    assert "script" not in {tag for tag, _ in page.tags}
    for word in ("body/0/fit/w", "26,122", "Schedule default/lr", "digits.sx:39", "head"):
        assert word in page.text
    (line,) = [a for tag, a in page.tags if tag == "polyline"]
    assert len((line["points"] or "").split()) == 61
    blocks = [tag for tag, _ in page.tags if tag == "rect"]
    assert len(blocks) >= 5
    assert np.isfinite([float(a["y"] or "nan") for t, a in page.tags if t == "rect"]).all()
