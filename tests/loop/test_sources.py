"""Sources and declared fields: what is read, and what each misfit says."""

import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import sexpgpu as sx
from sexpgpu.diagnostics.model import SxError
from sexpgpu.ir.document import Field, Stage
from sexpgpu.loop.data import identity, records, sources
from sexpgpu.loop.data.records import Records


def stage(
    source: dict[str, Any],
    *fields: tuple[Any, ...],
    base: Path | str = ".",
    records: int | None = None,
) -> Stage:
    return Stage(
        name="only", source=source, base=str(base), batch=2, shuffle=False, drop_last=True,
        microbatches=None, records=records, streams=False,
        fields=[
            Field(name=f[0], dtype=f[1], shape=f[2], range=f[3] if len(f) > 3 else None)
            for f in fields
        ],
    )  # fmt: skip


def read(
    given: Stage, *records: int, loader: str = "train", seed: int = 0
) -> dict[str, np.ndarray]:
    return Records(given, loader, seed).read(np.array(records, np.int64))


def failing(given: Stage, *records: int) -> Any:
    with pytest.raises(SxError) as caught:
        read(given, *records)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, save: Any) -> None:
    image = np.arange(60, dtype=np.uint8).reshape(5, 3, 4)
    label = np.arange(5, dtype=np.int64)
    save(tmp_path / "x.npz", Image=image, label=label, fortran=np.asfortranarray(image))
    got = read(
        stage(
            {"kind": "npz", "path": "x.npz"},
            ("image", "u8", (3, 4)), ("label", "i32", ()), ("fortran", "u8", (3, 4)),
            base=tmp_path, records=5,
        ),
        4, 0, 4,
    )  # fmt: skip
    assert got["label"].dtype == np.int32
    assert got["label"].tolist() == [4, 0, 4]
    assert np.array_equal(got["image"], image[[4, 0, 4]])
    assert np.array_equal(got["fortran"], image[[4, 0, 4]])
    assert type(got["image"]) is np.ndarray


def test_what_is_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches of small files and of arrays in the run file are read without a thread."""
    np.savez(tmp_path / "x.npz", x=np.zeros((8, 5), np.float32))
    (tmp_path / "a.txt").write_bytes(bytes(100))
    of_file = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", (5,)), base=tmp_path)
    text = {"kind": "text", "path": ["a.txt", "a.txt"], "window": 4}
    of_text = stage(text, ("tokens", "u8", (4,)), base=tmp_path)
    column = {"dtype": "f32", "shape": [], "values": [1.0, 2.0]}
    of_run_file = stage({"kind": "inline", "count": 2, "columns": {"x": column}}, ("x", "f32", ()))
    column = {"dtype": "f32", "shape": [], "distribution": ["normal", 0, 1]}
    drawn = stage({"kind": "synthetic", "count": 2, "columns": {"x": column}}, ("x", "f32", ()))
    every = (of_file, of_text, of_run_file, drawn)
    assert [Records(s, "t", 0).at_hand for s in every] == [True, True, True, False]
    monkeypatch.setattr(sources, "KEPT", 150)
    assert [Records(s, "t", 0).at_hand for s in every] == [False, False, True, False]
    monkeypatch.setattr(sources, "KEPT", 200)
    assert Records(of_text, "t", 0).at_hand
    monkeypatch.setattr(records, "AT_ONCE", 7)  # bytes of a batch of two
    assert not Records(of_run_file, "t", 0).at_hand
    assert not Records(of_text, "t", 0).at_hand


def test_npz_is_mapped_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 8), np.float32))
    given = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", (8,)), base=tmp_path)
    records = Records(given, "train", 0)
    array = records._source._arrays["x"]
    assert isinstance(array.base, np.memmap)


def test_npz_bfloat16_and_big_endian(tmp_path: Path) -> None:
    values = np.array([0.5, -2.0, 3.0], np.float32)
    np.savez(tmp_path / "x.npz", b=values.astype(ml_dtypes.bfloat16), e=values.astype(">f4"))
    got = read(
        stage({"kind": "npz", "path": "x.npz"}, ("b", "bf16", ()), ("e", "f32", ()), base=tmp_path),
        0, 1, 2,
    )  # fmt: skip
    assert got["b"].dtype == ml_dtypes.bfloat16
    assert got["b"].astype(np.float32).tolist() == values.tolist()
    assert got["e"].tolist() == values.tolist()


def test_several_files_are_joined_in_sorted_order(tmp_path: Path) -> None:
    for name, start, n in (("b", 3, 2), ("a", 0, 3), ("c", 5, 4)):
        np.savez(tmp_path / f"{name}.npz", x=np.arange(start, start + n, dtype=np.int32))
    given = stage({"kind": "npz", "path": "*.npz"}, ("x", "i32", ()), base=tmp_path, records=9)
    assert read(given, *range(9))["x"].tolist() == list(range(9))
    assert read(given, 8, 0, 4, 4)["x"].tolist() == [8, 0, 4, 4]
    listed = stage({"kind": "npz", "path": ["c.npz", "a.npz"]}, ("x", "i32", ()), base=tmp_path)
    assert read(listed, *range(7))["x"].tolist() == [5, 6, 7, 8, 0, 1, 2]


def test_text_windows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    (tmp_path / "b.txt").write_bytes(b"abcd")
    (tmp_path / "c.txt").write_bytes(b"")
    given = stage(
        {"kind": "text", "path": "?.txt", "window": 4, "stride": 3},
        ("tokens", "u8", (4,), (0, 127)), base=tmp_path,
    )  # fmt: skip
    records = Records(given, "train", 0)
    assert records.count == 4
    got = records.read(np.arange(4))["tokens"]
    assert [bytes(row) for row in got] == [b"0123", b"3456", b"6789", b"abcd"]


def test_inline() -> None:
    source = {
        "kind": "inline", "count": 2,
        "columns": {"x": {"dtype": "f32", "shape": [2], "values": [1, 2, 3, 4]}},
    }  # fmt: skip
    assert read(stage(source, ("x", "f32", (2,))), 1, 0)["x"].tolist() == [[3, 4], [1, 2]]


def test_synthetic_is_a_function_of_the_record() -> None:
    source = {
        "kind": "synthetic", "count": 4000,
        "columns": {
            "n": {"dtype": "f32", "shape": [3], "distribution": ["normal", 1.0, 2.0]},
            "u": {"dtype": "f64", "shape": [], "distribution": ["uniform", -1.0, 3.0]},
            "i": {"dtype": "i32", "shape": [2], "distribution": ["integers", -2, 5]},
        },
    }  # fmt: skip
    given = stage(source, ("n", "f32", (3,)), ("u", "f64", ()), ("i", "i32", (2,)))
    whole = read(given, *range(4000))
    some = read(given, 17, 3999, 17)
    for name in ("n", "u", "i"):
        assert np.array_equal(some[name], whole[name][[17, 3999, 17]])
    assert abs(whole["n"].mean() - 1) < 0.05
    assert abs(whole["n"].std() - 2) < 0.05
    assert whole["u"].min() >= -1
    assert whole["u"].max() < 3
    assert abs(whole["u"].mean() - 1) < 0.06
    assert set(whole["i"].reshape(-1).tolist()) == set(range(-2, 5))
    assert not np.array_equal(read(given, 0, seed=1)["n"], whole["n"][:1])
    assert not np.array_equal(read(given, 0, loader="other")["n"], whole["n"][:1])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_synthetic_uniforms_stay_below_high(dtype: str) -> None:
    column = {"dtype": dtype, "shape": [50], "distribution": ["uniform", 1000.0, 1002.0]}
    source = {"kind": "synthetic", "count": 100, "columns": {"u": column}}
    drawn = read(stage(source, ("u", dtype, (50,))), *range(100))["u"].astype(np.float64)
    assert drawn.min() >= 1000
    assert drawn.max() < 1002 or dtype == "bf16"  # to which both are 1000


def test_a_value_out_of_range_names_everything(tmp_path: Path) -> None:
    x = np.zeros((6, 2), np.int64)
    np.savez(tmp_path / "a.npz", tokens=x)
    x[3, 1] = 300
    np.savez(tmp_path / "b.npz", tokens=x)
    given = stage(
        {"kind": "npz", "path": "*.npz"}, ("tokens", "i32", (2,), (0, 255)), base=tmp_path
    )
    assert read(given, 0, 5, 8)["tokens"].shape == (3, 2)
    found = failing(given, 2, 9)
    assert found.code.id == "E-DATA-031"
    for part in ("b.npz", "record 3", "tokens", "300", "0 to 255", "(1)"):
        assert part in found.headline


@pytest.mark.parametrize(
    "values, dtype",
    [
        (np.array([1, 2, 300]), "u8"),
        (np.array([1, 2, -1]), "u16"),
        (np.array([1, 2, 2**40]), "i32"),
        (np.array([1, 2, 1e39]), "f32"),
        (np.array([1, 2, 1e6], np.float32), "f16"),
    ],
)
def test_a_value_that_does_not_fit_the_dtype(tmp_path: Path, values: Any, dtype: str) -> None:
    np.savez(tmp_path / "x.npz", x=values)
    given = stage({"kind": "npz", "path": "x.npz"}, ("x", dtype, ()), base=tmp_path)
    assert read(given, 0, 1)["x"].tolist() == [1, 2]
    found = failing(given, 2)
    assert found.code.id == "E-DATA-031"
    assert f"does not fit {dtype}" in found.headline


def test_nan_is_in_no_range(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.array([0.0, np.nan], np.float32))
    plain = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", ()), base=tmp_path)
    assert np.isnan(read(plain, 1)["x"]).all()
    ranged = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", (), (0, 1)), base=tmp_path)
    assert failing(ranged, 1).code.id == "E-DATA-031"


@pytest.mark.parametrize(
    "field, code",
    [
        (("y", "f32", ()), "E-DATA-002"),
        (("x", "f32", (3,)), "E-DATA-003"),
        (("x", "i32", (2,)), "E-DATA-003"),
        (("x", "bool", (2,)), "E-DATA-003"),
    ],
)
def test_a_field_that_the_data_does_not_have(
    tmp_path: Path, field: tuple[Any, ...], code: str
) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 2), np.float32))
    given = stage({"kind": "npz", "path": "x.npz"}, field, base=tmp_path)
    assert failing(given, 0).code.id == code


def test_other_counts_than_compiled(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros(4, np.float32))
    given = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", ()), base=tmp_path, records=5)
    found = failing(given, 0)
    assert found.code.id == "E-DATA-003"
    assert "4 records" in found.headline


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    field = ("x", "f32", ())
    missing = stage({"kind": "npz", "path": "no.npz"}, field, base=tmp_path)
    assert failing(missing, 0).code.id == "E-STORE-001"
    nothing = stage({"kind": "npz", "path": "*.npz"}, field, base=tmp_path)
    assert failing(nothing, 0).code.id == "E-STORE-001"
    (tmp_path / "junk.npz").write_bytes(b"not a zip archive at all")
    junk = stage({"kind": "npz", "path": "junk.npz"}, field, base=tmp_path)
    assert failing(junk, 0).code.id == "E-DATA-001"
    np.savez(tmp_path / "o.npz", x=np.array([{}], dtype=object))
    pickled = stage({"kind": "npz", "path": "o.npz"}, field, base=tmp_path)
    assert failing(pickled, 0).code.id == "E-DATA-001"
    np.savez(tmp_path / "scalar.npz", x=np.float32(1))
    scalar = stage({"kind": "npz", "path": "scalar.npz"}, field, base=tmp_path)
    assert failing(scalar, 0).code.id == "E-DATA-003"
    np.savez(tmp_path / "uneven.npz", x=np.zeros(3, np.float32), y=np.zeros(4))
    uneven = stage({"kind": "npz", "path": "uneven.npz"}, field, base=tmp_path)
    assert failing(uneven, 0).code.id == "E-DATA-003"


def test_a_truncated_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros(4000, np.float32))
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(whole[:9000])
    given = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", ()), base=tmp_path)
    assert failing(given, 0).code.id == "E-DATA-001"


def test_a_file_that_changes_under_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    given = stage(
        {"kind": "text", "path": "a.txt", "window": 2}, ("tokens", "u8", (2,)), base=tmp_path
    )
    records = Records(given, "train", 0)
    records.read(np.array([0]))
    (tmp_path / "a.txt").write_bytes(b"01234567")
    with pytest.raises(SxError) as caught:
        records.read(np.array([0]))
    assert caught.value.diagnostics[0].code.id == "E-STORE-007"


@pytest.mark.parametrize("kind", ["text", "npz"])
@pytest.mark.parametrize("whole", [1 << 25, 0])
def test_a_file_that_is_touched_under_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, whole: int
) -> None:
    """Purge policies of clusters make people touch their data."""
    monkeypatch.setattr(identity, "WHOLE", whole)
    file = tmp_path / f"a.{kind}"
    if kind == "text":
        file.write_bytes(b"0123456789")
        given = stage(
            {"kind": "text", "path": file.name, "window": 2}, ("tokens", "u8", (2,)), base=tmp_path
        )
    else:
        np.savez(file, x=np.arange(5, dtype=np.uint8))
        given = stage({"kind": "npz", "path": file.name}, ("x", "u8", ()), base=tmp_path)
    records = Records(given, "train", 0)
    before = records.read(np.arange(5))
    data = file.read_bytes()
    os.utime(file, (1, 1))
    again = records.read(np.arange(5))
    assert all(again[name].tobytes() == before[name].tobytes() for name in before)
    if kind == "text":
        file.write_bytes(data[::-1])
    else:
        np.savez(file, x=np.arange(5, dtype=np.uint8)[::-1])
    os.utime(file, (2, 2))
    with pytest.raises(SxError) as caught:
        records.read(np.array([0]))
    (found,) = caught.value.diagnostics
    assert found.code.id == "E-STORE-007"
    assert "other bytes" in found.notes[0].text
    (tmp_path / "copy").write_bytes(data)
    os.replace(tmp_path / "copy", file)  # what is mapped may be gone, on a file server
    with pytest.raises(SxError) as caught:
        records.read(np.array([0]))
    assert "another file has taken its place" in caught.value.diagnostics[0].notes[0].text


def test_a_kind_that_is_not_known() -> None:
    (found,) = [failing(stage({"kind": "tape", "path": __file__}, ("x", "f32", ())), 0)]
    assert found.code.id == "E-DATA-005"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_flipped_bit_anywhere_in_an_archive(tmp_path: Path, save: Any) -> None:
    """It reads, or is refused with a code: by the loop, and by the compiler's own reader."""
    path = tmp_path / "x.npz"
    save(path, x=np.arange(40, dtype=np.float32))
    whole = path.read_bytes()
    given = stage({"kind": "npz", "path": "x.npz"}, ("x", "f32", ()), base=tmp_path)
    ends = set()
    file = tmp_path / "a.sx"
    file.write_text('(defloader train :source (npz "x.npz") :batch 2)')
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        try:
            Records(given, "train", 0).read(np.array([0]))
            ends.add("read")
        except SxError as error:
            ends.add(error.diagnostics[0].code.id[:6])
        assert all(d.code.id != "E-INT-001" for d in sx.check(file))
    assert ends <= {"read", "E-DATA", "E-STOR"}
    assert len(ends) > 1
