"""Modules: what another file sees, what it may import, and that each is evaluated once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.printer import prin1_text
from sexpgpu.lisp.session import Session
from sexpgpu.source import Source

Files = dict[str, str]
Run = Callable[[Files], tuple[list[Diagnostic], str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Write files, evaluate `main.sx`: what was found, warnings included, and its `*r*`."""

    def evaluate(files: Files) -> tuple[list[Diagnostic], str]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        session = Session()
        try:
            path = str(tmp_path / "main.sx")
            loaded = session.load_all(Source("main.sx", files["main.sx"], path))
            result = loaded.module.symbols.get("*r*")
            value = prin1_text(result.value) if result is not None and result.special else ""
            return [*loaded.diagnostics, *session.diagnostics], value
        finally:
            session.close()

    return evaluate


def places(found: Sequence[Diagnostic]) -> list[str]:
    return [
        f"{d.code.id} {d.span.source.name.rpartition('/')[2]}:{d.span.line}:{d.span.column}"
        for d in found
        if d.span is not None
    ]


LIBRARY = """(defun layer (x) (list :layer x))
(defun scale (x) (list :scale x))
(defun %hidden (x) (list :hidden x))
(defvar *width* 4)
(defmacro twice (x) `(%hidden (list ,x ,x)))
(defstruct box a)
"""


@pytest.mark.parametrize(
    "form, value",
    [
        ('(require "./lib.sx" :as l)\n(defvar *r* (l:layer 1))', "(:layer 1)"),
        ('(require "./lib.sx" :as l)\n(defvar *r* l:*width*)', "4"),
        ('(require "./lib.sx" :as l)\n(defvar *r* (l:twice 2))', "(:hidden (2 2))"),
        ("(require \"./lib.sx\" :as l)\n(defvar *r* (mapcar #'l:layer '(1)))", "((:layer 1))"),
        ('(require "./lib.sx" :as l)\n(defvar *r* (l:box-a (l:make-box :a 3)))', "3"),
        ('(require "./lib.sx" :as l)\n(setf l:*width* 9)\n(defvar *r* l:*width*)', "9"),
        ('(require "./lib.sx" :import (layer))\n(defvar *r* (layer 1))', "(:layer 1)"),
        (
            (
                '(require "./lib.sx" :import (twice))\n(defun %hidden (x) :mine)\n'
                "(defvar *r* (list (twice 2) (%hidden 1)))"
            ),
            "((:hidden (2 2)) :mine)",
        ),
        (
            (
                '(require "./lib.sx" :as l :import (layer scale))\n'
                "(defvar *r* (list (layer 1) (scale 2) (eq 'layer 'l:layer)))"
            ),
            "((:layer 1) (:scale 2) t)",
        ),
        ('(require "./lib.sx" :as l)\n(defun layer (x) x)\n(defvar *r* (layer 1))', "1"),
        ('(require "./lib.sx" :as a)\n(require "./lib.sx" :as b)\n(defvar *r* (b:layer 1))', ""),
        ('(require "./lib.sx" :as l)\n(require "./lib.sx" :as l)\n(defvar *r* (l:layer 1))', ""),
        ('(require "./lib.sx" :import (layer))\n(require "./lib.sx" :import (layer))', None),
        ('(require "./lib.sx")\n(defvar *r* 1)', "1"),
        ("(require \"./lib.sx\" :as l)\n(defvar *r* (eq 'l:layer 'layer))", "nil"),
        ('(require "./lib.sx" :as l)\n(defvar *r* (eq :layer \':layer))', "t"),
    ],
)
def test_what_a_file_sees(run: Run, form: str, value: str | None) -> None:
    found, result = run({"lib.sx": LIBRARY, "main.sx": form})
    assert not found
    if value is not None:
        assert result == (value or "(:layer 1)")


@pytest.mark.parametrize(
    "form, wanted",
    [
        ('(require "./lib.sx" :as l)\n(l:%hidden 1)', ["E-READ-007 main.sx:2:2"]),
        ('(require "./lib.sx" :as l)\n(l:absent 1)', ["E-READ-007 main.sx:2:2"]),
        ('(require "./lib.sx" :as l)\n(x:layer 1)', ["E-READ-007 main.sx:2:2"]),
        ('(require "./lib.sx" :as l)\n(layer 1)', ["E-NAME-002 main.sx:2:1"]),
        ('(require "./lib.sx" :import (%hidden))', ["E-MOD-004 main.sx:1:10"]),
        ('(require "./lib.sx" :import (lyaer))', ["E-MOD-004 main.sx:1:10"]),
        (
            '(defun layer (x) x)\n(require "./lib.sx" :import (layer))',
            ["E-MOD-005 main.sx:2:10"],
        ),
        (
            '(require "./lib.sx" :import (layer))\n(require "./more.sx" :import (layer))',
            ["E-MOD-005 main.sx:2:10"],
        ),
        (
            '(require "./lib.sx" :as l)\n(require "./more.sx" :as l)',
            ["E-MOD-005 main.sx:2:10"],
        ),
        ('(require "./lib.sx" :import (layer))\n(defun layer (x) x)', ["E-NAME-006 main.sx:2:1"]),
        ('(require "./lib.sx" :as l)\n(defun l:layer (x) x)', ["E-NAME-006 main.sx:2:1"]),
        ('(require "./absent.sx" :as l)\n(l:layer 1)', ["E-MOD-001 main.sx:1:10"]),
        ('(require "lib.sx" :as l)', ["E-MOD-001 main.sx:1:10"]),
        ("(require lib :as l)", ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :as)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :as nil)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :as "l")', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :use l)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" as l)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :import layer)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :import (1))', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :as a :as b)', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :import (layer) :as a :import (scale))', ["E-MOD-003 main.sx:1:1"]),
        ('(require "./lib.sx" :as cl)', ["E-MOD-005 main.sx:1:10"]),
        ('(require "./lib.sx" :as common-lisp)', ["E-MOD-005 main.sx:1:10"]),
        ('(require "./lib.sx" :as tensor)', ["E-MOD-005 main.sx:1:10"]),
        ("(require)", ["E-MOD-003 main.sx:1:1"]),
        ("(export 1)", ["E-MOD-003 main.sx:1:1"]),
        ('(export "layer")', ["E-MOD-003 main.sx:1:1"]),
        ("(export %hidden)", ["E-MOD-003 main.sx:1:1"]),
    ],
)
def test_what_a_file_may_not(run: Run, form: str, wanted: list[str]) -> None:
    more = "(defun layer (x) (list :other x))"
    found, _ = run({"lib.sx": LIBRARY, "more.sx": more, "main.sx": form})
    assert places(found) == wanted


def test_export_narrows_to_its_names(run: Run) -> None:
    library = f"(export layer twice)\n{LIBRARY}"
    ok = '(require "./lib.sx" :as l :import (layer))\n(defvar *r* (list (layer 1) (l:twice 2)))'
    assert run({"lib.sx": library, "main.sx": ok}) == ([], "((:layer 1) (:hidden (2 2)))")
    found, _ = run({"lib.sx": library, "main.sx": '(require "./lib.sx" :as l)\n(l:scale 1)'})
    assert places(found) == ["E-READ-007 main.sx:2:2"]
    found, _ = run({"lib.sx": library, "main.sx": '(require "./lib.sx" :import (scale))'})
    assert places(found) == ["E-MOD-004 main.sx:1:10"]


def test_exports_add_up_wherever_they_stand(run: Run) -> None:
    library = f"{LIBRARY}(export layer)\n(export)\n(export scale layer)\n"
    main = '(require "./lib.sx" :as l)\n(defvar *r* (list (l:layer 1) (l:scale 2)))'
    assert run({"lib.sx": library, "main.sx": main}) == ([], "((:layer 1) (:scale 2))")


def test_an_empty_export_hides_everything(run: Run) -> None:
    main = '(require "./lib.sx" :as l)\n(l:layer 1)'
    found, _ = run({"lib.sx": f"(export)\n{LIBRARY}", "main.sx": main})
    assert places(found) == ["E-READ-007 main.sx:2:2"]


def test_imported_names_are_not_passed_on(run: Run) -> None:
    middle = '(require "./lib.sx" :as l :import (layer))\n(defun mine (x) (layer x))'
    main = '(require "./middle.sx" :as m)\n(defvar *r* (m:mine 1))'
    files = {"lib.sx": LIBRARY, "middle.sx": middle}
    assert run({**files, "main.sx": main}) == ([], "(:layer 1)")
    found, _ = run({**files, "main.sx": '(require "./middle.sx" :as m)\n(m:l:layer 1)'})
    assert [d.code.id for d in found] == ["E-READ-006"]
    found, _ = run({**files, "main.sx": '(require "./middle.sx" :as m)\n(l:layer 1)'})
    assert places(found) == ["E-READ-007 main.sx:2:2"]


@pytest.mark.parametrize(
    "names", [["main"], ["main", "a"], ["main", "a", "b"], ["main", "a", "b", "c"]]
)
def test_cycles_of_any_length(run: Run, names: list[str]) -> None:
    files = {
        f"{name}.sx": f'(defvar *r* 1)\n(require "./{after}.sx" :as x)\n'
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    }
    found, _ = run(files)
    assert places(found) == [f"E-MOD-002 {names[-1]}.sx:2:10"]
    (note,) = found[0].notes
    assert [f"{name}.sx" in note.text for name in names] == [True] * len(names)


def test_a_cycle_that_leaves_the_main_file_out(run: Run) -> None:
    found, _ = run(
        {
            "main.sx": '(require "./a.sx" :as a)',
            "a.sx": '(require "./b.sx" :as b)',
            "b.sx": '(require "./a.sx" :as a)',
        }
    )
    assert places(found) == ["E-MOD-002 b.sx:1:10"]


def test_a_diamond_is_no_cycle_and_is_evaluated_once(run: Run) -> None:
    found, result = run(
        {
            "base.sx": "(defvar *count* 0)\n(incf *count*)\n(princ :base)",
            "left.sx": '(require "./base.sx" :as b)\n(incf b:*count* 10)',
            "right.sx": '(require "./base.sx" :as b)\n(incf b:*count* 100)',
            "main.sx": (
                '(require "./left.sx" :as l)\n(require "./right.sx" :as r)\n'
                '(require "./base.sx" :as b)\n(defvar *r* b:*count*)'
            ),
        }
    )
    assert (found, result) == ([], "111")


def test_paths_are_relative_to_the_file_that_requires(run: Run) -> None:
    found, result = run(
        {
            "main.sx": '(require "./parts/model.sx" :as m)\n(defvar *r* (list (m:go-on) m:*seen*))',
            "parts/model.sx": (
                '(require "./inner/layer.sx" :as l)\n(require "../shared.sx" :as s)\n'
                "(defvar *seen* (list l:*here* s:*here*))\n(defun go-on () (l:up))"
            ),
            "parts/inner/layer.sx": (
                '(require "../../shared.sx" :as s)\n(defvar *here* :layer)\n'
                "(defun up () (incf s:*calls*))"
            ),
            "shared.sx": "(defvar *here* :shared)\n(defvar *calls* 0)",
            "parts/shared.sx": "(defvar *here* :wrong)",
            "inner/layer.sx": "(defvar *here* :wrong)",
        }
    )
    assert (found, result) == ([], "(1 (:layer :shared))")


def test_one_file_by_two_spellings_is_one_module(run: Run) -> None:
    main = (
        '(require "./lib.sx" :as a)\n(require "./x/../lib.sx" :as b)\n'
        "(defvar *r* (eq 'a:layer 'b:layer))"
    )
    assert run({"lib.sx": LIBRARY, "x/empty.sx": "", "main.sx": main}) == ([], "t")


def test_a_link_to_a_file_is_the_same_module(run: Run, tmp_path: Path) -> None:
    (tmp_path / "linked.sx").symlink_to(tmp_path / "lib.sx")
    main = (
        '(require "./lib.sx" :as a)\n(require "./linked.sx" :as b)\n'
        "(defvar *r* (eq 'a:layer 'b:layer))"
    )
    assert run({"lib.sx": LIBRARY, "main.sx": main}) == ([], "t")


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("(defun f (x) x)\n(defun f (y) y)", ["E-NAME-003 lib.sx:2:1"]),
        ("(defmacro f (x) x)\n(defun f (y) y)", ["E-NAME-003 lib.sx:2:1"]),
        ("(defstruct s a)\n(defstruct s b)", ["E-NAME-003 lib.sx:2:1"]),
        ("(defun f (x)\n  (undefined-thing x))\n(f 1)", ["E-NAME-002 lib.sx:2:3"]),
        ("(car 1)\n(cdr 1)", ["E-TYPE-001 lib.sx:1:1", "E-TYPE-001 lib.sx:2:1"]),
        ('(list "abc', ["E-READ-003 lib.sx:1:7"]),
    ],
)
def test_mistakes_in_a_library_are_shown_there(run: Run, text: str, wanted: list[str]) -> None:
    main = '(require "./lib.sx" :as l)\n(l:anything 1)\n'
    found, _ = run({"lib.sx": text, "main.sx": main})
    assert places(found) == wanted


def test_the_same_name_in_two_modules_is_two_things(run: Run) -> None:
    main = (
        '(require "./a.sx" :as a)\n(require "./b.sx" :as b)\n(defun f () :main)\n'
        "(defvar *r* (list (a:f) (b:f) (f) (a:call) (b:call)))"
    )
    one = "(defun f () :{0})\n(defun call () (funcall 'f))"
    files = {"a.sx": one.format("a"), "b.sx": one.format("b"), "main.sx": main}
    assert run(files) == ([], "(:a :b :main :a :b)")


def test_the_main_file_of_a_cycle_is_not_evaluated_again(run: Run) -> None:
    found, value = run(
        {
            "main.sx": ('(defvar *r* 0)\n(incf *r*)\n(require "./lib.sx" :as l)\n(incf *r* 10)\n'),
            "lib.sx": '(require "./main.sx" :as m)\n',
        }
    )
    assert (places(found), value) == (["E-MOD-002 lib.sx:1:10"], "11")


def test_a_file_that_was_mended_is_read_again_by_the_next_evaluation(tmp_path: Path) -> None:
    library = tmp_path / "lib.sx"
    session = Session()
    module = session.new_module("main", str(tmp_path / "main.sx"))
    library.write_text("(car 1)")
    for _ in range(2):
        with pytest.raises(SxError) as raised:
            session.evaluate('(require "./lib.sx" :as l)', module)
        assert places(raised.value.diagnostics) == ["E-TYPE-001 lib.sx:1:1"]
    library.write_text("(defun f () :mended)")
    assert session.evaluate('(require "./lib.sx" :as l) (l:f)', module)[0].name == "mended"
    session.close()


def test_a_library_that_failed_is_not_evaluated_again(run: Run) -> None:
    main = '(require "./lib.sx" :as a)\n(require "./lib.sx" :as b)\n(b:f)\n'
    found, _ = run({"lib.sx": "(car 1)", "main.sx": main})
    assert places(found) == ["E-TYPE-001 lib.sx:1:1"]


def test_prelude_names_that_a_library_defines_stay_its_own(run: Run) -> None:
    main = '(require "./lib.sx" :as l)\n(defvar *r* (list (l:range 2) (range 2) (l:inside)))'
    library = "(defun range (n) (list :mine n))\n(defun inside () (range 3))"
    found, result = run({"lib.sx": library, "main.sx": main})
    assert places(found) == ["W-NAME-001 lib.sx:1:1"]
    assert result == "((:mine 2) (0 1) (:mine 3))"


def test_a_library_keeps_its_global_variables_between_callers(run: Run) -> None:
    library = "(defvar *n* 0)\n(defun next () (incf *n*))\n(defun bound () *n*)"
    main = (
        '(require "./lib.sx" :as l)\n(l:next)\n(l:next)\n'
        "(defvar *r* (list l:*n* (let ((l:*n* 7)) (l:bound)) (l:bound)))"
    )
    assert run({"lib.sx": library, "main.sx": main}) == ([], "(2 7 2)")


def test_require_stands_at_top_level_only(run: Run) -> None:
    files = {"lib.sx": LIBRARY}
    found, _ = run({**files, "main.sx": '(defun f ()\n  (require "./lib.sx" :as l))\n(f)'})
    assert found
    assert all(d.code.id.startswith("E-") for d in found)
    found, result = run(
        {**files, "main.sx": '(progn (require "./lib.sx" :as l))\n(defvar *r* (l:layer 1))'}
    )
    assert (found, result) == ([], "(:layer 1)")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/absent.sx",
        "../../outside.sx",
        "../../../../../../../etc/passwd",
        "./lib/../../../outside.sx",
        "./notes.txt",
        "./secret.sx",
        "./folder/lib.sx",
    ],
)
def test_no_file_but_a_lisp_source_of_the_project_is_read(
    run: Run, tmp_path: Path, path: str
) -> None:
    (tmp_path / "here").mkdir()
    for name in ("outside.sx", "notes.txt", "here/notes.txt"):
        (tmp_path / name).write_text("(a line that is nobody's business")
    (tmp_path / "here" / "secret.sx").symlink_to(tmp_path / "notes.txt")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lib.sx").write_text("(car 'nobody-s-business)")
    (tmp_path / "here" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "here" / ".git").mkdir()
    main = f'(require "{path}" :as lib)\n'
    session = Session()
    found = session.load_all(Source("main.sx", main, str(tmp_path / "here" / "main.sx")))
    assert places(found.diagnostics) == ["E-MOD-006 main.sx:1:10"]


def test_the_project_reaches_to_where_it_is_under_version_control(run: Run, tmp_path: Path) -> None:
    library = {"lib/a.sx": "(defun f () :a)", "lib/b.lisp": "(defun f () :b)"}
    main = (
        '(require "../../lib/a.sx" :as a)\n(require "../../lib/b.lisp" :as b)\n'
        "(defvar *r* (list (a:f) (b:f)))"
    )
    files = {**library, "one/two/main.sx": main}

    def found() -> tuple[list[str], str]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        session = Session()
        path = str(tmp_path / "one" / "two" / "main.sx")
        loaded = session.load_all(Source("main.sx", main, path))
        value = loaded.module.symbols["*r*"].value
        session.close()
        return places(loaded.diagnostics), prin1_text(value) if loaded.diagnostics == [] else ""

    assert found() == (["E-MOD-006 main.sx:1:10", "E-MOD-006 main.sx:2:10"], "")
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    assert found() == ([], "(:a :b)")


def test_an_absolute_path_into_the_project_is_told_as_a_relative_one(run: Run, tmp_path: Path):
    main = f'(require "{tmp_path}/lib.sx" :as l)'
    found, _ = run({"lib.sx": LIBRARY, "main.sx": main})
    assert [(d.code.id, d.fix) for d in found] == [("E-MOD-006", 'write "./lib.sx"')]
