"""Texts from a seed that try the reader and the evaluator: bytes, tokens in any order, and what
good files and examples become when a few places are changed. Also hostile arguments of builtins.

`outcome` runs a text under small limits: None, or what was wrong (an exception of Python's, an
error without a place or code, a hang)."""

from __future__ import annotations

import random
import re
import time
import traceback
from pathlib import Path

from sexpgpu.diagnostics.model import Diagnostic, SxError
from sexpgpu.lisp.session import Session
from sexpgpu.lisp.state import Limits
from sexpgpu.source import Source

ROOT = Path(__file__).parents[2]
WORD = re.compile(r"[^\s()'`,\"]+")
INNER = re.compile(r"\([^()]*\)")
SIGNS = [
    "(", ")", "'", "`", ",", ",@", "#'", "#(", "#\\a", '"', "#|", "|#", "#+", "#-", "#.", "#1=",
    "#1#", "#S(", "#x", "#3r", "|", ";", "\\", ".", "1e5", "-1/2", "1e999", "nil", "t", ":k",
    "&rest", "&key", "&optional", "&whole", "&environment", "&aux", "&body", "declare",
]  # fmt: skip
LETTERS = "()'`,#|\"\\;: .\0é\u2028\ud800\U0001f600"
HANG = 10.0
"""Seconds over which a text counts as one that does not end: its own limit is far below."""


def corpus() -> list[str]:
    """The top-level forms of the tables of builtins, the standard library, the examples and the
    files of mistakes."""
    files = [
        *sorted((ROOT / "tests/unit/lisp/tables").glob("*.lisp")),
        *sorted((ROOT / "stdlib").rglob("*.sx")),
        *sorted((ROOT / "examples").glob("*.sx")),
        *sorted((ROOT / "tests/golden/errors").glob("*.sx")),
    ]
    return [
        form
        for file in files
        for form in re.split(r"\n(?=\()", file.read_text(encoding="utf-8"))
        if form.strip()
    ]


class Fuzz:
    """Texts of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.corpus = corpus()
        self.tokens = [*sorted({w for form in self.corpus for w in WORD.findall(form)}), *SIGNS]

    def text(self) -> str:
        r = self.random
        kind = r.random()
        if kind < 0.1:
            return "".join(chr(r.randrange(1, 300)) for _ in range(r.randint(1, 60)))
        if kind < 0.15:
            return bytes(r.randrange(256) for _ in range(r.randint(1, 60))).decode(
                "utf-8", "surrogateescape"
            )
        if kind < 0.3:
            return " ".join(r.choice(self.tokens) for _ in range(r.randint(1, 25)))
        text = r.choice(self.corpus)
        for _ in range(r.randint(1, 4)):
            text = self.mutated(text)
        return text

    def mutated(self, text: str) -> str:
        """The text with one change."""
        r = self.random
        if not text:
            return r.choice(self.tokens)
        at = r.randrange(len(text))
        end = min(len(text), at + r.randint(1, 12))
        match r.randrange(7):
            case 0:
                return text[:at] + text[end:]
            case 1:
                return f"{text[:at]} {r.choice(self.tokens)} {text[at:]}"
            case 2:
                return text[:at] + text[at:end] + text[at:]
            case 3:
                return text[:at] + r.choice(LETTERS) + text[at:]
            case 4:
                return self.replaced(text, WORD, r.choice(self.tokens))
            case 5:
                return self.replaced(text, INNER, r.choice(self.tokens))
            case _:
                forms = INNER.findall(r.choice(self.corpus))
                return f"{text[:at]} {r.choice(forms)} {text[at:]}" if forms else text

    def replaced(self, text: str, what: re.Pattern[str], by: str) -> str:
        """The text with one of the places that match replaced."""
        found = list(what.finditer(text))
        if not found:
            return text
        match = self.random.choice(found)
        return text[: match.start()] + by + text[match.end() :]


def outcome(text: str) -> str | None:
    """What is wrong with how a text ended, or None."""
    limits = Limits(fuel=100_000, seconds=3, memory=20_000_000, objects=3_000_000)
    session = Session(limits)
    start = time.process_time()
    try:
        found = session.load_all(Source("fuzz.sx", text)).diagnostics
        problem = next((p for d in found if (p := unfit(d))), None)
    except SxError as error:
        problem = next((p for d in error.diagnostics if (p := unfit(d))), None)
    except Exception as error:  # noqa: BLE001  (that is what is looked for)
        problem = where(error)
    finally:
        session.close()
    taken = time.process_time() - start
    return problem or (f"took {taken:.0f} s" if taken > HANG else None)


def unfit(diagnostic: Diagnostic) -> str | None:
    """What a diagnostic of a file lacks."""
    if not re.fullmatch(r"[EW]-[A-Z]+-\d{3}", diagnostic.code.id) or "E-INT" in diagnostic.code.id:
        return f"code {diagnostic.code.id}: {diagnostic.headline}"
    if diagnostic.span is None:
        return f"no place: {diagnostic.code.id} {diagnostic.headline}"
    return None


def where(error: BaseException) -> str:
    """An exception, and the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


VALUES = {
    "nothing": "nil",
    "truth": "t",
    "small": "3",
    "negative": "-5",
    "big": "(expt 10 30)",
    "huge": "(expt 7 20000)",
    "float": "1e300",
    "ratio": "(/ (expt 3 2000) (expt 2 2000))",
    "string": "(make-string 20000 :initial-element #\\a)",
    "control": '"~a~{"',
    "character": "#\\a",
    "symbol": "'foo",
    "keyword": ":foo",
    "function": "#'list",
    "circular": "(let ((l (list 1 2))) (setf (cddr l) l) l)",
    "circular-car": "(let ((l (list 1 2))) (setf (car l) l) l)",
    "circular-vector": "(let ((a (vector 1 2))) (setf (aref a 0) a) a)",
    "shared": "(let ((a (list 1 2))) (dotimes (i 40) (setq a (list a a))) a)",
    "deep": "(let ((a (list 1 2))) (dotimes (i 10000) (setq a (list a))) a)",
    "long": "(make-list 10000 :initial-element 1)",
    "dotted": "(cons 1 2)",
    "alist": "(list (cons 1 2) 3 nil)",
    "quoted": "''a",
    "table": "(let ((h (make-hash-table :test 'equalp))) (setf (gethash 1 h) h) h)",
    "condition": "(make-condition 'error)",
    "stream": "(make-string-output-stream)",
}
"""What a builtin may be given, by a word for it: forms, evaluated anew for each call."""


PLACES = (
    "(let ((x {})) (remf x :a))",
    "(let ((x {})) (setf (getf x :a) 1))",
    "(let ((x {})) (push 1 (cdr x)))",
    "(let ((x {})) (pushnew 7 x :test #'equal))",
    "(let ((x {})) (incf (nth 9999 x)))",
    "(let ((x {})) (setf (subseq x 0 1) x))",
    "(let ((x {})) (setf (values x (car x)) x))",
    "(let ((x {})) (shiftf (first x) (third x) x))",
    "(list 1 `(,@{} 2))",
    "`#(1 ,@{})",
    "(destructuring-bind (a &optional b &rest c) {} (list a b c))",
    "(destructuring-bind (&key a ((:b b)) &allow-other-keys) {} (list a b))",
    "(destructuring-bind (a (b c) . d) {} (list a b c d))",
    "(multiple-value-call #'list (values-list {}))",
    "(progv {} '(1 2) 3)",
    "(progv '(x y) {} 3)",
    "(dolist (x {}) x)",
    "(do ((x {} (cdr x))) ((endp x)))",
    "(loop for x in {} collect x)",
    "(loop for (a . b) on {} by #'cddr sum a)",
    "(loop for x in (list {} {}) nconc x)",
    "(loop for x in (list {} {}) append x)",
    "(loop for x across {} maximize x)",
    "(loop for x being the hash-keys of {} count x)",
    "(case {} (1 2) (t 3))",
    "(typecase {} (list 1) (t 2))",
    "(typep 1 {})",
    "(eval {})",
    "(macroexpand {})",
    "(funcall {} 1)",
    "(error {})",
    "(restart-case (invoke-restart {}) (continue () 1))",
    "(check-type (car {}) integer)",
    "(with-output-to-string (s) (print {} s))",
    "(with-input-from-string (s {}) (read s))",
    "(let ((*print-circle* t)) (prin1-to-string {}))",
    "(let ((*print-length* 3) (*print-level* 2)) (prin1-to-string {}))",
    "(let ((*print-base* {})) (princ-to-string 10))",
    '(let ((*read-base* {})) (read-from-string "10"))',
    "(progn (defstruct (s (:type list)) a b) (copy-s {}))",
    '(format nil "~{~a~}~:{~a~}~@?" {} {} {})',
)
"""Operators that are no functions, with a place for such a value."""


class Caller:
    """Calls builtins, all in one session."""

    def __init__(self) -> None:
        limits = Limits(fuel=60_000, seconds=2, memory=20_000_000, objects=2_000_000)
        self.session = Session(limits)
        self.module = self.session.new_module("main")

    def outcome(self, function: str, words: tuple[str, ...]) -> str | None:
        """What is wrong with how a call ended, or None."""
        arguments = " ".join(VALUES[word] for word in words)
        return self.evaluated(f"(apply {function} (list {arguments}))")

    def evaluated(self, text: str) -> str | None:
        """What is wrong with how the evaluation of a form ended, or None."""
        start = time.process_time()
        problem = None
        try:
            self.session.evaluate(text, self.module)
        except SxError as error:
            problem = next((p for d in error.diagnostics if (p := unfit(d))), None)
        except Exception as error:  # noqa: BLE001  (that is what is looked for)
            problem = where(error)
        taken = time.process_time() - start
        return problem or (f"took {taken:.0f} s" if taken > HANG else None)
