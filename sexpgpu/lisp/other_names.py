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
** expt, ^ expt, <> /=, % mod, // floor, @ matmul, += incf, -= decf, && and
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
        (
            "defclass make-instance slot-value with-slots with-accessors find-class class-of "
            "class-name change-class slot-boundp slot-exists-p slot-makunbound slot-missing "
            "slot-unbound allocate-instance initialize-instance reinitialize-instance "
            "shared-initialize make-instances-obsolete update-instance-for-different-class "
            "update-instance-for-redefined-class"
        ),
        "there are no classes",
        "define a structure with defstruct",
    ),
    (
        (
            "defgeneric defmethod call-next-method next-method-p call-method make-method "
            "add-method remove-method find-method no-applicable-method no-next-method "
            "compute-applicable-methods ensure-generic-function function-keywords "
            "method-qualifiers define-method-combination invalid-method-error "
            "method-combination-error make-load-form make-load-form-saving-slots"
        ),
        "there are no generic functions",
        "write one function, and choose in it with typecase",
    ),
    (
        "print-object print-unreadable-object describe-object",
        "there are no generic functions",
        "give the structure a (:print-function …)",
    ),
    (
        (
            "defpackage in-package use-package make-package find-package shadow do-symbols "
            "do-all-symbols do-external-symbols with-package-iterator find-all-symbols "
            "list-all-packages packagep package-name package-nicknames "
            "package-shadowing-symbols package-use-list package-used-by-list rename-package "
            "delete-package unexport unintern unuse-package shadowing-import provide"
        ),
        "there are no packages; a file is a module",
        'write (require "./file.sx" :as name)',
    ),
    (
        (
            "open with-open-file with-open-stream load probe-file delete-file rename-file "
            "directory ensure-directories-exist truename file-author file-length "
            "file-position file-string-length file-write-date file-error-pathname read-byte "
            "write-byte read-sequence write-sequence stream-element-type "
            "stream-external-format user-homedir-pathname pathname pathnamep make-pathname "
            "merge-pathnames parse-namestring namestring file-namestring directory-namestring "
            "host-namestring enough-namestring pathname-host pathname-device "
            "pathname-directory pathname-name pathname-type pathname-version pathname-match-p "
            "wild-pathname-p logical-pathname logical-pathname-translations "
            "translate-logical-pathname load-logical-pathname-translations translate-pathname "
            "compile-file-pathname"
        ),
        "no form reaches a file",
        "declare data with defloader",
    ),
    (
        "compile compile-file disassemble with-compilation-unit",
        "functions are compiled as they are defined",
        "leave the call out",
    ),
    (
        (
            "get-universal-time get-decoded-time decode-universal-time encode-universal-time "
            "get-internal-real-time get-internal-run-time sleep time"
        ),
        "no form reaches a clock",
        "leave the call out; the run's events have the times",
    ),
    (
        "make-random-state random-state-p",
        "random numbers follow the run's seed",
        "write (random n)",
    ),
    (
        "complex realpart imagpart conjugate phase cis upgraded-complex-part-type",
        "there are no complex numbers",
        "keep two reals",
    ),
    (
        (
            "bit sbit bit-and bit-ior bit-xor bit-not bit-andc1 bit-andc2 bit-orc1 bit-orc2 "
            "bit-nand bit-nor bit-eqv"
        ),
        "there are no bit vectors",
        "use logand, logior, logxor, lognot on integers",
    ),
    (
        (
            "set-macro-character set-dispatch-macro-character make-dispatch-macro-character "
            "get-macro-character get-dispatch-macro-character set-syntax-from-char "
            "copy-readtable readtable-case readtablep read-delimited-list "
            "with-standard-io-syntax"
        ),
        "the reader cannot be changed",
        "write the form itself",
    ),
    (
        "trace untrace break inspect describe apropos apropos-list step room ed dribble",
        "there is no debugger",
        "print what you look for, or ask sexpgpu eval",
    ),
    (
        (
            "pprint-logical-block pprint-newline pprint-indent pprint-tab pprint-tabular "
            "pprint-linear pprint-fill pprint-pop pprint-exit-if-list-exhausted "
            "pprint-dispatch copy-pprint-dispatch set-pprint-dispatch "
            "print-not-readable-object"
        ),
        "there is no pretty printer",
        "use format",
    ),
    (
        "y-or-n-p yes-or-no-p clear-input read-char-no-hang interactive-stream-p",
        "nobody is asked while a file is evaluated",
        "let the user choose with defknob or defvariant",
    ),
    (
        (
            "make-broadcast-stream make-concatenated-stream make-echo-stream "
            "make-synonym-stream make-two-way-stream broadcast-stream-streams "
            "concatenated-stream-streams echo-stream-input-stream echo-stream-output-stream "
            "synonym-stream-symbol two-way-stream-input-stream two-way-stream-output-stream"
        ),
        "streams read and write strings only",
        "use with-input-from-string and with-output-to-string",
    ),
    (
        (
            "lisp-implementation-type lisp-implementation-version machine-instance "
            "machine-type machine-version software-type software-version long-site-name "
            "short-site-name"
        ),
        "no form sees the machine",
        "leave the call out; the run's manifest names the machine",
    ),
    (
        "adjust-array array-displacement",
        "a vector is never displaced or adjusted",
        "make it with :adjustable t and :fill-pointer, and use vector-push-extend",
    ),
    ("compiler-macro-function", "compiler macros have no effect", "leave the call out"),
)

# The variables of Common Lisp that are not here, in the same way.
_ABSENT_VARIABLES = (
    (
        "*package* *modules*",
        "there are no packages; a file is a module",
        'write (require "./file.sx" :as name)',
    ),
    (
        "*features*",
        "the features are :sexpgpu and the selected variants",
        "test one with #+ or #-",
    ),
    (
        "*readtable* *read-eval* *read-suppress* *read-default-float-format*",
        "the reader cannot be changed",
        "leave it out",
    ),
    ("*random-state*", "random numbers follow the run's seed", "write (random n)"),
    (
        "*macroexpand-hook* *debugger-hook* *break-on-signals* *print-pprint-dispatch*",
        "there is no debugger, and no hook",
        "leave it out, or use handler-bind",
    ),
    (
        "*debug-io* *query-io*",
        "nobody is asked while a file is evaluated",
        "write to *standard-output*",
    ),
    (
        (
            "*load-pathname* *load-truename* *load-print* *load-verbose* *compile-print* "
            "*compile-verbose* *compile-file-pathname* *compile-file-truename* "
            "*default-pathname-defaults*"
        ),
        "no form reaches a file",
        "leave it out",
    ),
    ("internal-time-units-per-second", "no form reaches a clock", "leave it out"),
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
"""Functions and macros of Common Lisp that are not here: why, and what to do."""
ABSENT_VARIABLES = {
    name: (why, fix) for names, why, fix in _ABSENT_VARIABLES for name in names.split()
}
"""Variables of Common Lisp that are not here, in the same way."""
_COPY = "no form changes a tensor; {} gives a changed copy: (setf x {})"
PLACES = {
    "at": _COPY.format("set-at", "(set-at x value i)") + ", or add-at for incf",
    "take": _COPY.format("set-at", "(set-at x value ids)"),
    "gather": _COPY.format("scatter", "(scatter x ids values)"),
    "dynamic-slice": _COPY.format("dynamic-update-slice", "(dynamic-update-slice x y starts)"),
    "shape": "the shape is fixed: (setf x (reshape x shape))",
}
"""What has no place that could be set, though one may look for it: what to do instead."""
LEAVE = {"exit", "quit", "bye"}
"""How other dialogues are left."""
FUNCTIONS = {**_table(_FUNCTIONS), **OPERATORS}
VARIABLES = _table(_VARIABLES)
