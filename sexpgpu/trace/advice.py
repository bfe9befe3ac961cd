"""What to write where the Lisp was given a tensor and wanted something else. Read for messages
only. Knows the names of functions, not what they do."""

from __future__ import annotations

_FUNCTIONS = {
    "(at x i)": "nth svref char schar",
    "(at x 0)": "car first",
    "(at x 1), of which 0 is the first": "second third fourth fifth sixth seventh eighth",
    "(at x (slice 1 nil))": "cdr rest",
    "(at x (slice -1 nil))": "last",
    "(at x (slice 0 -1))": "butlast nbutlast",
    "(at x (slice n nil))": "nthcdr",
    "(at x (slice start end))": "subseq",
    "(dim x axis)": "array-dimension",
    "(dim x 0)": "list-length",
    "(shape x)": "array-dimensions",
    "(rank x)": "array-rank",
    "(size x)": "array-total-size",
    "(flip x :axis 0)": "reverse nreverse",
    "(concat (list a b))": "append nconc concatenate",
    "(tensor-sort x)": "sort stable-sort",
    "(count-nonzero (= x item))": "count count-if count-if-not",
    "(argmax (cast (= x item) :i32)), the place of the first": (
        "find find-if find-if-not position position-if position-if-not member assoc search"
    ),
    "(any test), of a bool tensor such as (> x 0)": "some notany",
    "(all test), of a bool tensor such as (> x 0)": "every notevery",
    "(where (= x old) new x)": "substitute substitute-if nsubstitute",
    "(set-at x value i), which gives a changed copy": "fill replace",
    "(sum x), prod, amax, amin, any, all, each with :axis, or (scan f init x) for other loops": (
        "reduce"
    ),
    "(f x): functions of tensors take all elements at once; or (scan f init x) for a loop in the "
    "graph": "mapcar mapc mapcan map map-into maplist",
    "(random-int 0 n shape), a draw of each step": "random",
    "(floor (sqrt x))": "isqrt",
    "(logand (ash x (- i)) 1)": "logbitp",
}
BY_FUNCTION = {name: mend for mend, names in _FUNCTIONS.items() for name in names.split()}

SEQUENCE = (
    "a tensor is no list, and its operations take all rows at once; to go along its first axis, "
    "write (scan f init x) for a loop in the graph, or (split x (dim x 0)) for a list of slices"
)
_SEQUENCES = ("list", "sequence", "vector", "array", "simple-vector", "cons", "(and vector")
_NUMBERS = ("integer", "unsigned-byte", "(integer", "(or null", "fixnum", "a valid index")
_REALS = ("number", "real", "rational", "float", "(or (integer")
_TEXTS = ("string", "character", "symbol", "(or string")


def advice(expected: str, function: str) -> str | None:
    """The mend where that type was wanted, by that function ("" where it is not known)."""
    if function in BY_FUNCTION and not expected.startswith((*_NUMBERS, "function")):
        return f"write {BY_FUNCTION[function]}"
    if expected.startswith(_SEQUENCES):
        return SEQUENCE
    if expected == "function":
        return (
            "a tensor is no function: give one that computes it, as (lambda (x) …); to take "
            "elements of a tensor, write (at x i)"
        )
    if expected.startswith(_NUMBERS):
        return (
            "a tensor's value is known only when the graph runs: use an ordinary integer, such as "
            "(dim x i), a knob or a literal; an index may be a tensor in (at x i), a loop along a "
            "tensor is (scan f init xs)"
        )
    if expected.startswith(_REALS):
        return (
            "a tensor's value is known only when the graph runs: use an ordinary number, or a "
            "function of tensors in place of this one"
        )
    if expected.startswith(_TEXTS):
        return "a tensor's value is known only when the graph runs: report it with (metric :name x)"
    return None
