"""Codes of the Lisp: names, arguments, types, conditions, macros, limits, modules."""

from __future__ import annotations

from sexpgpu.diagnostics.model import code

# ---- NAME: variables and functions ----------------------------------------------------------
E_NAME_001 = code(
    "E-NAME-001",
    title="unbound variable",
    explain=(
        "A name is used as a variable, and nothing binds it: no parameter, `let` or other binding "
        "around it, and no `defvar`, `defparameter` or `defconstant` before it is evaluated. "
        "`setq` of such a name is the same error: define the variable first."
    ),
    fix="correct the name, or define it with defvar or defparameter",
    bad="(defun area (width height)\n  (* width heigth))\n(area 2 3)\n",
    good="(defun area (width height)\n  (* width height))\n(area 2 3)\n",
)
E_NAME_002 = code(
    "E-NAME-002",
    title="undefined function",
    explain="A form calls a name that is neither a function, a macro nor a special operator.",
    fix="correct the name, define the function, or require its module",
    bad="(defun double (x) (* 2 x))\n(dubble 3)\n",
    good="(defun double (x) (* 2 x))\n(double 3)\n",
)
E_NAME_003 = code(
    "E-NAME-003",
    title="defined twice",
    explain=(
        "One module defines the same function, macro, variable, structure or model twice. The "
        "second definition would silently replace the first, so it is refused."
    ),
    fix="rename or remove one of the definitions",
    bad="(defun f (x) x)\n(defun f (x) (* 2 x))\n",
    good="(defun f (x) x)\n(defun g (x) (* 2 x))\n",
)
E_NAME_004 = code(
    "E-NAME-004",
    title="an operator of Common Lisp cannot be redefined",
    explain=(
        "CL's own functions, macros, special operators, types and places mean the same in every "
        "file: a module may neither define them nor bind them with flet, labels or macrolet. "
        "(Variables named `list` or `rest` are fine, and the names of the prelude and of tensor "
        "operations may be defined over.)"
    ),
    fix="choose another name",
    bad="(defun first (x) x)\n",
    good="(defun leading (x) x)\n",
)
E_NAME_005 = code(
    "E-NAME-005",
    title="a macro or special operator used as a function",
    explain=(
        "`#'name`, `funcall` and `apply` take functions. Macros and special operators are forms "
        "of the language, not values."
    ),
    fix="wrap the form in a lambda: (lambda (x y) (and x y))",
    bad="(reduce #'and '(t nil))\n",
    good="(every #'identity '(t nil))\n",
)
E_NAME_006 = code(
    "E-NAME-006",
    title="definition of a name that belongs to another module",
    explain="`alias:name` names what another module defines; only that module can define it.",
    fix="define a name of your own",
)
W_NAME_001 = code(
    "W-NAME-001",
    title="a prelude or tensor name is redefined",
    explain=(
        "The module defines a name that the prelude or the tensor operations already have. Within "
        "the module the new definition holds everywhere; other modules are not affected."
    ),
    fix="rename the definition, unless replacing the name is meant",
    bad="(defun range (n) (list n))\n(range 2)\n",
    good="(defun span-of (n) (list n))\n(span-of 2)\n",
)
W_NAME_002 = code(
    "W-NAME-002",
    title="a function that is never defined is called",
    explain=(
        "The body of a function calls a name that the file never defines. Nothing called that "
        "function yet, so nothing failed, but the first call will."
    ),
    fix="correct the name, or define the function",
    bad="(defun area (w h) (multiply w h))\n",
    good="(defun area (w h) (* w h))\n",
)

# ---- ARG: calls -----------------------------------------------------------------------------
E_ARG_001 = code(
    "E-ARG-001",
    title="wrong number of arguments",
    explain="A function is called with more or fewer arguments than its lambda list takes.",
    fix="call it as its lambda list says",
    bad="(defun area (width height) (* width height))\n(area 2)\n",
    good="(defun area (width height) (* width height))\n(area 2 3)\n",
)
E_ARG_002 = code(
    "E-ARG-002",
    title="unknown keyword, or keywords not in pairs",
    explain="Keyword arguments are pairs `:name value`, and the function must know the name.",
    fix="use one of the function's keywords",
    bad="(defun f (&key rate) rate)\n(f :rat 1)\n",
    good="(defun f (&key rate) rate)\n(f :rate 1)\n",
)
E_ARG_003 = code(
    "E-ARG-003",
    title="malformed lambda list",
    explain=(
        "A lambda list is: required parameters, then &optional, &rest (in macros also &body), "
        "&key, &allow-other-keys, &aux, in this order, each variable once; t, nil, pi and "
        "keywords are constants and can be none, and no parameter's name begins with &."
    ),
    fix="write the lambda list so",
    bad="(defun f (&key a &optional b) (list a b))\n",
    good="(defun f (&optional b &key a) (list a b))\n",
)
E_ARG_004 = code(
    "E-ARG-004",
    title="malformed special form or macro call",
    explain="The form does not have the shape that its operator takes.",
    fix="write the form as the message shows",
    bad="(defun f (x) (if x))\n",
    good="(defun f (x) (if x 1 2))\n",
)
E_ARG_005 = code(
    "E-ARG-005",
    title="arguments of a macro do not match its lambda list",
    explain="The subforms of a macro call, or a list to be destructured, do not fit the pattern.",
    fix="write the call as the macro's lambda list says",
    bad="(defmacro twice (form) `(progn ,form ,form))\n(twice)\n",
    good="(defmacro twice (form) `(progn ,form ,form))\n(twice 1)\n",
)

# ---- TYPE: ordinary values ------------------------------------------------------------------
E_TYPE_001 = code(
    "E-TYPE-001",
    title="a value of the wrong type",
    explain="An operation was given a value of a kind it does not take.",
    fix="look where the value comes from",
    bad='(+ 1 "2")\n',
    good="(+ 1 2)\n",
)
E_TYPE_002 = code(
    "E-TYPE-002",
    title="index out of range",
    explain="An element was asked for that the sequence does not have; the first has index 0.",
    fix="use an index below the length",
    bad="(elt (list 1 2 3) 3)\n",
    good="(elt (list 1 2 3) 2)\n",
)
E_TYPE_003 = code(
    "E-TYPE-003",
    title="a literal constant would be changed",
    explain=(
        "Quoted lists, strings and vectors written in the file are part of the program and cannot "
        "be changed in place."
    ),
    fix="change a copy: (copy-list …), (copy-seq …), or build it with (list …)",
    bad="(setf (car '(1 2)) 3)\n",
    good="(setf (car (list 1 2)) 3)\n",
)

# ---- COND: conditions that nobody handled ---------------------------------------------------
E_COND_001 = code(
    "E-COND-001",
    title="an error was signalled",
    explain="`error`, or a function, signalled an error, and no handler took it.",
    fix="mend what the message says, or handle the condition with handler-case",
    bad='(error "the rate ~a is negative" -1)\n',
    good='(handler-case (error "the rate ~a is negative" -1) (error () 0))\n',
)
E_COND_002 = code(
    "E-COND-002",
    title="arithmetic error",
    explain="Division by zero, an overflow of a float, or a value outside a function's domain.",
    fix="check the operands",
    bad="(/ 1 0)\n",
    good="(/ 1 2)\n",
)
E_COND_003 = code(
    "E-COND-003",
    title="control transfer to a place that no longer exists",
    explain=(
        "`return-from`, `go`, `throw` or a restart needs its block, tagbody, catch or restart to "
        "be active still."
    ),
    fix="leave the block while it is active; a throw needs a catch with the same tag",
    bad="(throw 'done 1)\n",
    good="(catch 'done (throw 'done 1))\n",
)
E_COND_004 = code(
    "E-COND-004",
    title="text that does not parse",
    explain="`parse-integer`, `read-from-string` or a kin was given a text it cannot read.",
    fix="check the text",
    bad='(parse-integer "12x")\n',
    good='(parse-integer "12")\n',
)
E_COND_005 = code(
    "E-COND-005",
    title="an assertion failed",
    explain="The test of an `assert` is false.",
    fix="mend what the assertion checks",
    bad="(assert (= 1 2))\n",
    good="(assert (= 1 1))\n",
)
W_COND_001 = code(
    "W-COND-001",
    title="a warning was signalled",
    explain="`warn` was called, and no handler muffled the warning.",
    fix="mend what the message says",
    bad='(warn "the rate is high")\n',
    good='(handler-bind ((warning #\'muffle-warning)) (warn "the rate is high"))\n',
)

# ---- MACRO ----------------------------------------------------------------------------------
E_MACRO_001 = code(
    "E-MACRO-001",
    title="an error while a macro was expanded",
    explain=(
        "The function of a macro signalled an error. The place shown is the use of the macro; the "
        "notes show where in the macro it happened."
    ),
    fix="check the macro's arguments, or mend the macro",
    bad="(defmacro first-of (list) (car list))\n(first-of 3)\n",
    good="(defmacro first-of (list) (car list))\n(first-of (3))\n",
)
E_MACRO_004 = code(
    "E-MACRO-004",
    title="a declaration that belongs to the top level",
    explain="The form declares something of the whole file and cannot stand inside another form.",
    fix="move it to the top level of the file",
)
W_MACRO_001 = code(
    "W-MACRO-001",
    title="a macro's variable captures one of its use",
    explain=(
        "The text of the macro binds a name around a form that was given to it, and that form uses "
        "the caller's variable of the same name: it means the macro's instead. A name that means "
        "nothing at the use, such as the `it` of an anaphoric macro, is no mistake."
    ),
    fix="bind a fresh symbol in the macro, with with-gensyms",
    bad=(
        "(defmacro swap (a b) `(let ((kept ,a)) (setf ,a ,b ,b kept)))\n"
        "(let ((kept 1) (other 2)) (swap other kept) (list kept other))\n"
    ),
    good=(
        "(defmacro swap (a b)\n"
        "  (with-gensyms (kept) `(let ((,kept ,a)) (setf ,a ,b ,b ,kept))))\n"
        "(let ((kept 1) (other 2)) (swap other kept) (list kept other))\n"
    ),
)
W_MACRO_002 = code(
    "W-MACRO-002",
    title="a local function hides one that a macro calls",
    explain=(
        "The text of the macro calls a global function, and the use stands inside a `flet` or "
        "`labels` that defines a function of that name: the macro's call reaches the local one."
    ),
    fix="give the local function another name",
    bad=(
        "(defun half (x) (/ x 2))\n"
        "(defmacro quarter (x) `(half (half ,x)))\n"
        "(flet ((half (x) (list x))) (list (half 1) (quarter 8)))\n"
    ),
    good=(
        "(defun half (x) (/ x 2))\n"
        "(defmacro quarter (x) `(half (half ,x)))\n"
        "(flet ((boxed (x) (list x))) (list (boxed 1) (quarter 8)))\n"
    ),
)

# ---- LIMIT ----------------------------------------------------------------------------------
E_LIMIT_001 = code(
    "E-LIMIT-001",
    title="out of fuel",
    explain=(
        "Evaluating the file took more steps than the limit allows: most likely a loop or a "
        "recursion that does not end. A step is a function call or one round of a loop."
    ),
    fix="mend the loop; if it is meant, raise the limit with --limit fuel=N",
    bad="(loop)\n",
    good="(loop repeat 3 do (list 1))\n",
)
E_LIMIT_002 = code(
    "E-LIMIT-002",
    title="calls nested too deeply",
    explain="Lisp calls are nested deeper than the limit: most likely an endless recursion.",
    fix="give the recursion an end, or write it as a loop; --limit depth=N raises the limit",
    bad="(defun f (n) (1+ (f n)))\n(f 0)\n",
    good="(defun f (n) (if (= n 0) 0 (1+ (f (- n 1)))))\n(f 10)\n",
)
E_LIMIT_003 = code(
    "E-LIMIT-003",
    title="out of memory allowance",
    explain="Evaluating the file built more lists, strings or numbers than the limit allows.",
    fix="build less; --limit memory=N raises the limit",
    bad='(let ((s "x")) (loop (setq s (concatenate \'string s s))))\n',
    good='(let ((s "x")) (concatenate \'string s s))\n',
)
E_LIMIT_004 = code(
    "E-LIMIT-004",
    title="out of time",
    explain="Evaluating the file took longer than the limit allows.",
    fix="compute less while compiling; --limit seconds=N raises the limit",
)
E_LIMIT_005 = code(
    "E-LIMIT-005",
    title="too much output",
    explain="The file printed more characters than the limit allows.",
    fix="print less; --limit output=N raises the limit",
    bad='(dotimes (i 1000000) (princ "a line of output without end"))\n',
    good='(dotimes (i 10) (princ "a line"))\n',
)
E_LIMIT_006 = code(
    "E-LIMIT-006",
    title="lists nested too deeply",
    explain="The text nests parentheses deeper than the reader's limit.",
    fix="write the form in parts; --limit nesting=N raises the limit",
)
E_LIMIT_007 = code(
    "E-LIMIT-007",
    title="macro expansion does not end",
    explain="Expanding a form led to another macro call again and again, beyond the limit.",
    fix="give the macro's recursion an end",
    bad="(defmacro again (x) `(again ,x))\n(again 1)\n",
    good="(defmacro once (x) x)\n(once 1)\n",
)

E_LIMIT_008 = code(
    "E-LIMIT-008",
    title="a graph with too many nodes",
    explain="Tracing a function made more nodes than a graph may have: most likely a loop that "
    "adds operations and does not end.",
    fix="mend the loop, or write it as an operation on whole tensors",
)

# ---- MOD: require ---------------------------------------------------------------------------
E_MOD_001 = code(
    "E-MOD-001",
    title="module not found",
    explain=(
        "`require` names a file that does not exist (a path that begins with ./ or ../ is "
        "relative to the requiring file) or a standard module that does not exist."
    ),
    fix="correct the path, or use a standard module",
    bad='(require "sexpgpu/nm" :as nn)\n',
    good='(require "sexpgpu/nn" :as nn)\n',
)
E_MOD_002 = code(
    "E-MOD-002",
    title="modules require each other in a cycle",
    explain="A module is evaluated before the one that requires it, so a cycle has no beginning.",
    fix="move what both need into a third module",
)
E_MOD_003 = code(
    "E-MOD-003",
    title="malformed require or export",
    explain=(
        '`(require "path" :as alias :import (name…))` names a module with a literal string; '
        "`(export name…)` lists names of this module."
    ),
    fix='write (require "./lib.sx" :as lib)',
    bad='(require "sexpgpu/nn" nn)\n',
    good='(require "sexpgpu/nn" :as nn)\n',
)
E_MOD_004 = code(
    "E-MOD-004",
    title="a name cannot be imported",
    explain="The module does not define the name, or it is private (`%name`, or not exported).",
    fix="import a name that the module defines and exports",
    bad='(require "sexpgpu/nn" :import (linearr))\n',
    good='(require "sexpgpu/nn" :import (linear))\n',
)
E_MOD_005 = code(
    "E-MOD-005",
    title="two meanings for one imported name or alias",
    explain=(
        "An alias, or an imported name, is already taken by something else in this module. `cl`, "
        "`common-lisp` and `tensor` are aliases everywhere, of the layers below a module."
    ),
    fix="choose another alias, or refer to the name as alias:name",
    bad='(require "sexpgpu/nn" :as tensor)\n',
    good='(require "sexpgpu/nn" :as nn)\n',
)
E_MOD_006 = code(
    "E-MOD-006",
    title="a path that no module may have",
    explain=(
        "A module is a standard module, or a file named `….sx` (or `….lisp`) in the project, by a "
        "path relative to the requiring file. The project is the nearest folder above the run file "
        "that is under version control; where none is, the folder above the run file's own. So an "
        "experiment means the same on every machine, and no other file can be read."
    ),
    fix="copy the file into the project, and require it by a path that begins with ./ or ../",
    bad='(require "/etc/passwd" :as lib)\n',
    good='(require "sexpgpu/nn" :as nn)\n',
)
