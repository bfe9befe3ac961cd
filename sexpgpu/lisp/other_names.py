"""What other languages and array libraries call the functions and constants of this one.

A name is proposed only where it is defined: the table may name what the host adds.
"""

from __future__ import annotations

_FUNCTIONS = """
sign signum, pow expt, power expt, ln log, absolute abs, fabs abs, arcsin asin, arccos acos,
arctan atan, arcsinh asinh, arccosh acosh, arctanh atanh, negative -, neg -, sub -, subtract -,
add +, plus +, mul *, multiply *, times *, div /, divide /, remainder rem, modulo mod, sqr square,
maximum max, minimum min, ceil ceiling, trunc truncate, greater >, less <, not-equal /=,
clamp clip, clip-by-value clip, cat concat, mm matmul, bmm matmul, permute transpose,
swapaxes transpose, unsqueeze expand-dims, newaxis expand-dims, view reshape, ravel flatten,
expand broadcast-to, broadcast broadcast-to, broadcast-in-dim broadcast-to, tensor constant,
array constant, asarray constant, as-tensor constant, astype cast, to cast, detach stop-gradient,
lax-scan scan, fori-loop scan, remat recompute, gradient grad, vjp grad,
value-and-grad grad, custom-gradient custom-vjp, functional-call with-params,
stop-grad stop-gradient, lax-stop-gradient stop-gradient, reduce-sum sum, reduce-mean mean,
reduce-max amax, reduce-min amin, reduce-prod prod, product prod, variance var, stdev std,
inner dot, rand random-uniform, uniform random-uniform, randn random-normal,
normal random-normal, randint random-int, bernoulli random-bernoulli,
categorical random-categorical, multinomial random-categorical, gumbel random-gumbel,
logistic sigmoid, log-sum-exp logsumexp, onehot one-hot, isnan nan-p, is-nan nan-p, isinf inf-p,
is-inf inf-p, isfinite finite-p, is-finite finite-p, ndim rank, numel size, select where,
masked-fill where, index-select take, gather-nd gather, repeat-interleave repeat-elements,
conv1d conv, conv2d conv, conv3d conv, max-pool1d max-pool, max-pool2d max-pool,
maxpool max-pool, avg-pool1d avg-pool, avg-pool2d avg-pool, avgpool avg-pool, upsample resize,
interpolate resize, len length, println print, display print, printf format, filter remove-if-not,
fold reduce, foldl reduce, for-each mapc, foreach mapc, null? null, equal? equal, eq? eq,
zero? zerop, string-append concatenate, concatenate-tensors concat, call funcall, == =, != /=,
** expt, % mod, // floor, @ matmul, += incf, -= decf, && and
"""
_OPERATORS = """
def defun, define defun, defn defun, fn lambda, for dolist, import require,
set! setf, begin progn, do-list dolist, do-times dotimes, elif cond, switch case, try handler-case,
define-macro defmacro, letrec labels
"""
_VARIABLES = "true t, false nil, none nil, null nil, undefined nil, else t"


# What Common Lisp has and this language has not: names, why, and what to do instead.
_ABSENT = (
    (
        "defclass make-instance slot-value with-slots with-accessors find-class",
        "there are no classes",
        "define a structure with defstruct",
    ),
    (
        "defgeneric defmethod call-next-method",
        "there are no generic functions",
        "write one function, and choose in it with typecase",
    ),
    (
        "print-object print-unreadable-object",
        "there are no generic functions",
        "give the structure a (:print-function …)",
    ),
    (
        "defpackage in-package use-package make-package find-package shadow do-symbols",
        "there are no packages; a file is a module",
        'write (require "./file.sx" :as name)',
    ),
    (
        "open with-open-file load probe-file delete-file directory read-byte pathname",
        "no form reaches a file",
        "declare data with defloader",
    ),
    (
        "compile compile-file disassemble with-compilation-unit",
        "functions are compiled as they are defined",
        "leave the call out",
    ),
    (
        "get-universal-time get-decoded-time get-internal-real-time sleep time",
        "no form reaches a clock",
        "leave the call out; the run's events have the times",
    ),
    ("make-random-state", "random numbers follow the run's seed", "write (random n)"),
    (
        "complex realpart imagpart conjugate phase cis",
        "there are no complex numbers",
        "keep two reals",
    ),
    (
        "bit sbit bit-and bit-ior bit-xor bit-not",
        "there are no bit vectors",
        "use logand, logior, logxor, lognot on integers",
    ),
    (
        "set-macro-character set-dispatch-macro-character copy-readtable readtable-case",
        "the reader cannot be changed",
        "write the form itself",
    ),
    (
        "trace untrace break inspect describe apropos",
        "there is no debugger",
        "print what you look for, or ask sexpgpu eval",
    ),
    (
        "pprint-logical-block pprint-newline pprint-indent pprint-tab",
        "there is no pretty printer",
        "use format",
    ),
)


def _table(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for entry in text.split(","):
        other, ours = entry.split()
        table[other] = ours
    return table


OPERATORS = _table(_OPERATORS)
"""Operators: what follows them is no list of arguments, and must not be evaluated first."""
ABSENT = {name: (why, fix) for names, why, fix in _ABSENT for name in names.split()}
"""Names of Common Lisp that are not here: why, and what to do."""
FUNCTIONS = {**_table(_FUNCTIONS), **OPERATORS}
VARIABLES = _table(_VARIABLES)
