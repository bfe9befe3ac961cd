"""Names of run directories and what is put there."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sexpgpu.diagnostics.model import SxError
from sexpgpu.loop import directory
from sexpgpu.source import Source


def test_the_slug_of_the_documentation() -> None:
    selection = {
        "variants": ["wide"],
        "knobs": {
            "lr": {"value": 0.003, "source": "--set"},
            "width": {"value": 1024, "source": "variant wide"},
            "act": {"value": ":gelu", "source": "default"},
        },
        "overrides": {},
    }
    assert directory.slug_of("digits", selection, "1f0c22aa99") == "digits-wide-lr=0.003-1f0c22aa"
    selection["overrides"] = {"seed": 4}
    selection["knobs"]["act"] = {"value": ":relu", "source": "sweep s[1]"}
    assert (
        directory.slug_of("digits", selection, "1f0c22aa99")
        == "digits-wide-lr=0.003-act=%3arelu-seed=4-1f0c22aa"
    )


@given(st.text(max_size=300))
def test_every_name_is_one_file_name(name: str) -> None:
    slug = directory.slug_of(name, {}, "0" * 64)
    assert len(slug.encode()) <= 255
    assert "/" not in slug
    assert "\0" not in slug
    assert not slug.startswith(".")
    directory.checked_slug(slug)


@given(st.text(max_size=60), st.text(max_size=60))
def test_escaping_keeps_names_apart(a: str, b: str) -> None:
    assert (directory.escaped(a) == directory.escaped(b)) == (a == b)


@pytest.mark.parametrize("slug", ["", ".", "..", "a/b", "x" * 256, "a\0b"])
def test_slugs_that_cannot_be(slug: str) -> None:
    with pytest.raises(SxError) as caught:
        directory.checked_slug(slug)
    assert caught.value.diagnostics[0].code.id == "E-RUN-033"


def test_sources_are_kept_to_the_byte(tmp_path: Path) -> None:
    text = "(defrun x)\r\n; ünï\n\n"
    directory.make(str(tmp_path))
    directory.write_experiment(
        str(tmp_path), '{"a":1}', {"entry": "x.sx"},
        [Source("../lib/x.sx", text), Source("/abs/y.sx", "y"), Source("lib/x.sx", "x"),
         Source("lib/../../lib/x.sx", "z")],
    )  # fmt: skip
    assert (tmp_path / "sources/2/lib/x.sx").read_text() == "x"
    assert (tmp_path / "sources/lib/lib/x.sx").read_text() == "z"
    assert (tmp_path / "sources/lib/x.sx").read_bytes() == text.encode()
    assert (tmp_path / "sources/abs/y.sx").read_text() == "y"
    assert json.loads((tmp_path / "experiment.ir.json").read_text()) == {"a": 1}
    assert json.loads((tmp_path / "manifest.json").read_text()) == {"entry": "x.sx"}


def test_clear_removes_only_what_a_run_wrote(tmp_path: Path) -> None:
    directory.make(str(tmp_path))
    (tmp_path / "events.jsonl").write_text("{}\n")
    (tmp_path / "metrics.csv").write_text("seq\n")  # of --log, as is:
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "events.out").write_text("")
    (tmp_path / "notes.txt").write_text("mine")
    for name in ("5", "bad-3", "7.cut", "9.partial", "5-good"):
        (tmp_path / "checkpoints" / name).mkdir()
    directory.clear(str(tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoints", "notes.txt"]
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["5-good"]
    (tmp_path / "checkpoints" / "5-good").rmdir()
    directory.clear(str(tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
