"""What random and mutated texts once brought to a Python exception: a coded error, or a value."""

from __future__ import annotations

import pytest

import sexpgpu.compiler  # noqa: F401  with the functions of tensors
from sexpgpu.diagnostics.model import SxError
from sexpgpu.lisp.batch import Batch
from sexpgpu.lisp.session import Session
from sexpgpu.source import Source


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('(name-char (concatenate \'string "N" (string (code-char 55296)) "L"))', "nil"),
        ("(length (symbol-name (gensym (expt 10 5000))))", "5002"),
        ("(let ((*gensym-counter* (expt 10 5000))) (length (symbol-name (gensym))))", "5002"),
    ],
)
def test_is_a_value(text: str, wanted: str) -> None:
    assert Batch().evaluate(text).get("values") == [wanted]


@pytest.mark.parametrize(
    "text, code",
    [
        ("(subtypep '(integer a 5) 'integer)", "E-COND-001"),
        ("(subtypep '(integer (0) b) nil)", "E-COND-001"),
        ("(subtypep '(float * \"x\") 'integer)", "E-COND-001"),
        ("\u2028(f alpha/ran`k)", "E-NAME-001"),
        ('(with-input-from-string (s "abc" : sublis -0.0 i) (read s))', "E-"),
        ("(define-condition c (error) ((rate :initarg :ra (1) te)))", "E-ARG-004"),
        ("(define-condition c (error) ((rate :initarg 5)))", "E-ARG-004"),
        ("(typep 5 '(mod a))", "E-COND-001"),
        ("(typep 5 '(mod 0))", "E-COND-001"),
        ("(subtypep '(mod a) 'integer)", "E-COND-001"),
        ("(subtypep '(mod) 'integer)", "E-COND-001"),
        ("(subtypep 'fixnum '(signed-byte a))", "E-COND-001"),
        ("(subtypep 'fixnum '(unsigned-byte -1))", "E-COND-001"),
        ("(typep 5 '(unsigned-byte 1000000000000000))", "E-LIMIT-003"),
        ("(subtypep '(signed-byte 1000000000000000) 'bit)", "E-LIMIT-003"),
        ("(sublis '((a . 1) b) '(a b))", "E-TYPE-001"),
        ("(restart-bind ((skip 'l (lambda (s) 1) 2)) 1)", "E-ARG-004"),
    ],
)
def test_is_a_coded_error(text: str, code: str) -> None:
    session = Session()
    found = session.load_all(Source("t.sx", text)).diagnostics
    session.close()
    assert found
    assert all(d.code.id.startswith("E-") for d in found)
    assert found[-1].code.id.startswith(code) or found[0].code.id.startswith(code), found


def test_a_number_too_large_for_a_function_of_tensors_is_told_briefly() -> None:
    session = Session()
    with pytest.raises(SxError) as raised:
        session.evaluate("(lgamma (expt 7 20000))", session.new_module("m"))
    session.close()
    diagnostic = raised.value.diagnostics[0]
    assert diagnostic.code.id == "E-COND-002"
    assert len(diagnostic.headline) < 120
