"""Codes of the reader: text that is not a sequence of Lisp forms."""

from __future__ import annotations

from sexpgpu.diagnostics.model import code

E_READ_001 = code(
    "E-READ-001",
    title="unclosed parenthesis",
    explain=(
        "A list was opened and the text, or the top-level form that follows, began before it was "
        "closed. The place shown is the parenthesis that was never closed. The reader goes on at "
        "the next line that starts with a parenthesis."
    ),
    fix="close the list; an editor that matches parentheses shows where",
    bad="(defun double (x)\n  (* 2 x)\n",
    good="(defun double (x)\n  (* 2 x))\n",
)
E_READ_002 = code(
    "E-READ-002",
    title="unmatched closing parenthesis",
    explain="A `)` closes nothing: every list before it was already closed.",
    fix="remove it; or, if the form above should go on to here, what ends that too early",
    bad="(defun double (x)\n  (* 2 x)))\n",
    good="(defun double (x)\n  (* 2 x))\n",
)
E_READ_003 = code(
    "E-READ-003",
    title="unclosed string, comment or |symbol|",
    explain=(
        'A string that begins with `"`, a comment that begins with `#|`, or a symbol with a bar '
        "`|` runs to the end of the text. The place shown is where it begins."
    ),
    fix="close it",
    bad='(defvar *name* "digits)\n',
    good='(defvar *name* "digits")\n',
)
E_READ_004 = code(
    "E-READ-004",
    title="misplaced dot",
    explain=(
        "A lone dot may stand only before the last element of a list, as in `(a . b)`, with one "
        "element before it and exactly one after it."
    ),
    fix="remove the dot, or write a number with a digit: `0.5`",
    bad="(defvar *pair* '(1 . 2 3))\n",
    good="(defvar *pair* '(1 . 2))\n",
)
E_READ_005 = code(
    "E-READ-005",
    title="reader syntax that is not here",
    explain=(
        "After `#` the language has: `#'` function, `#(…)` vector, `#\\c` character, `#:name`, "
        "`#+feature` and `#-feature`, `#|…|#` comment, `#b #o #x #nr` numbers. Evaluation at read "
        "time (`#.`) and shared structure (`#1=`, `#1#`) are refused, the rest does not exist."
    ),
    fix="write the value with ordinary syntax",
    bad="(defvar *two* #.(+ 1 1))\n",
    good="(defvar *two* (+ 1 1))\n",
)
E_READ_006 = code(
    "E-READ-006",
    title="malformed token",
    explain=(
        "The text between two separators is neither a number nor a symbol: several colons, a "
        "number that has no value (`1/0`, `1e999`, `1e-999`), or digits that the given base has "
        "not."
    ),
    fix="write it as a number or a symbol",
    bad="(defvar *x* 1/0)\n",
    good="(defvar *x* 1/2)\n",
)
E_READ_007 = code(
    "E-READ-007",
    title="unknown or private name in a module",
    explain=(
        "`alias:name` looks the name up in the module that `(require … :as alias)` named. The "
        "alias must be declared above its first use; names that begin with `%`, and names left "
        "out of an `export`, are private to their module."
    ),
    fix="require the module with that alias, or correct the name",
    bad="(defun f (x) (nn:relu x))\n",
    good='(require "sexpgpu/nn" :as nn)\n(defun f (x) (nn:linear x))\n',
)
E_READ_008 = code(
    "E-READ-008",
    title="comma outside a backquote",
    explain="`,` and `,@` insert a value into a template; a template begins with a backquote.",
    fix="begin the template with a backquote, or remove the comma",
    bad="(defmacro twice (x) '(* 2 ,x))\n(defvar *y* ,1)\n",
    good="(defmacro twice (x) `(* 2 ,x))\n",
)
E_READ_009 = code(
    "E-READ-009",
    title="unknown character name",
    explain=(
        "`#\\` is followed by one character or by a character's name: Space, Newline, Tab, Page, "
        "Return, Backspace, Rubout, Linefeed, Nul, Escape, or U+ with hexadecimal digits."
    ),
    fix="use one of these names",
    bad="(defvar *c* #\\spce)\n",
    good="(defvar *c* #\\space)\n",
)
E_READ_010 = code(
    "E-READ-010",
    title="a quote with nothing after it",
    explain="`'`, a backquote, `,`, `#'`, `#+` and `#-` stand before a form.",
    fix="write the form, or remove the mark",
    bad="(defvar *x* ')\n",
    good="(defvar *x* 'a)\n",
)
E_READ_011 = code(
    "E-READ-011",
    title="text that is not UTF-8",
    explain="Source files are UTF-8. The file has bytes that are no UTF-8 text.",
    fix="save the file as UTF-8",
)
