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


def _table(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for entry in text.split(","):
        other, ours = entry.split()
        table[other] = ours
    return table


OPERATORS = _table(_OPERATORS)
"""Operators: what follows them is no list of arguments, and must not be evaluated first."""
FUNCTIONS = {**_table(_FUNCTIONS), **OPERATORS}
VARIABLES = _table(_VARIABLES)
