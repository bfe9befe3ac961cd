"""Random programs of ordinary Lisp, from a seed: closed forms that end, whose values print alike
in every Common Lisp. Used to compare this one with SBCL.

Each method of `Maker` gives a form of a kind (an integer, a boolean, a list of integers, a string)
from the variables in scope; control flow, closures, places and conditions are mixed in.
"""

from __future__ import annotations

import random
from collections.abc import Callable


class Maker:
    """Forms from a seed. `names` are the integer variables in scope."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: list[str] = []
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def pick(self, depth: int, leaves: list[Callable[[], str]], trees: list[Callable[[int], str]]):
        if depth <= 0 or self.random.random() < 0.15:
            return self.random.choice(leaves)()
        return self.random.choice(trees)(depth - 1)

    def within(self, name: str, make: Callable[[], str]) -> str:
        """The form made while one more variable is in scope."""
        self.names.append(name)
        try:
            return make()
        finally:
            self.names.pop()

    # ------------------------------------------------------------ integers

    def literal(self) -> str:
        r = self.random
        return str(r.choice([0, 1, 2, -1, 7, r.randint(-20, 20), r.randint(-(10**12), 10**12)]))

    def variable(self) -> str:
        return self.random.choice(self.names) if self.names else self.literal()

    def number(self, depth: int) -> str:
        return self.pick(
            depth,
            [self.literal, self.variable, self.variable],
            [
                self.arithmetic,
                self.rounding,
                self.conditional,
                self.binding,
                self.function,
                self.local_function,
                self.closure,
                self.block,
                self.tagbody,
                self.catch,
                self.handler,
                self.restart,
                self.loop_number,
                self.do_loop,
                self.several,
                self.place,
                self.sequence_number,
                self.text_number,
                self.table,
                self.destructuring,
                self.case,
                self.unwinding,
                self.bits,
            ],
        )

    def arithmetic(self, d: int) -> str:
        operator = self.random.choice(["+", "-", "*", "max", "min", "gcd", "lcm"])
        count = self.random.randint(1, 3)
        return f"({operator} {' '.join(self.number(d) for _ in range(count))})"

    def bits(self, d: int) -> str:
        r = self.random
        n = self.number(d)
        return r.choice(
            [
                f"(logand {n} {self.number(d)})",
                f"(logior {n} {self.number(d)})",
                f"(logxor {n} {self.number(d)})",
                f"(lognot {n})",
                f"(integer-length {n})",
                f"(logcount {n})",
                f"(ash {n} {r.randint(-5, 5)})",
                f"(ldb (byte {r.randint(0, 6)} {r.randint(0, 6)}) {n})",
                f"(isqrt (abs {n}))",
                f"(signum {n})",
                f"(if (logbitp {r.randint(0, 8)} {n}) 1 0)",
            ]
        )

    def rounding(self, d: int) -> str:
        operator = self.random.choice(["floor", "ceiling", "truncate", "round", "mod", "rem"])
        divisor = self.random.choice(["2", "-3", "7", "5/2", "-7/3", "10"])
        form = f"({operator} {self.number(d)} {divisor})"
        if operator in ("mod", "rem"):
            return f"(values (floor {form}))"
        value = self.fresh()
        rest = self.fresh()
        return f"(multiple-value-bind ({value} {rest}) {form} (+ {value} (* 6 {rest})))".replace(
            f"(* 6 {rest})", f"(values (floor (* 6 {rest})))"
        )

    def conditional(self, d: int) -> str:
        r = self.random
        test, a, b = self.truth(d), self.number(d), self.number(d)
        return r.choice(
            [
                f"(if {test} {a} {b})",
                f"(cond ({test} {a}) ({self.truth(d)} {b}) (t {self.literal()}))",
                f"(or (when {test} {a}) {b})",
                f"(or (unless {test} {a}) {b})",
                f"(if (and {test} {self.truth(d)}) {a} {b})",
            ]
        )

    def binding(self, d: int) -> str:
        one, two = self.fresh(), self.fresh()
        value = self.number(d)
        star = self.random.choice(["let", "let*"])
        if star == "let":
            second = self.number(d)
        else:
            second = self.within(one, lambda: self.number(d))
        body = self.within(one, lambda: self.within(two, lambda: self.number(d)))
        change = self.random.choice(["", f"(setq {one} (1+ {two}))", f"(incf {one} {two})"])
        return f"({star} (({one} {value}) ({two} {second})) {change} {body})"

    def function(self, d: int) -> str:
        r = self.random
        a, b, c = self.fresh(), self.fresh(), self.fresh()
        lists = [
            (f"({a} {b})", f"{self.number(d)} {self.number(d)}"),
            (f"({a} &optional ({b} (* 2 {a})))", self.number(d)),
            (f"({a} &key ({b} 3) ({c} {a} given))", f"{self.number(d)} :{b} {self.number(d)}"),
            (f"({a} &rest {b} &aux ({c} (length {b})))", f"{self.number(d)} 1 2 3"),
        ]
        number = r.randrange(4)
        parameters, arguments = lists[number]
        extra = {2: f"(if given 100 {b})", 3: f"(+ {c} (reduce #'+ {b}))"}.get(number, b)
        body = self.within(a, lambda: self.number(d))
        call = r.choice(["funcall", "apply"])
        last = "" if call == "funcall" else " nil"
        return f"({call} (lambda {parameters} (+ {body} {extra})) {arguments}{last})"

    def local_function(self, d: int) -> str:
        name, n = f"f{self.fresh()}", self.fresh()
        kind = self.random.choice(["flet", "labels"])
        if kind == "flet":
            body = self.within(n, lambda: self.number(d))
            return f"(flet (({name} ({n}) {body})) (+ ({name} {self.number(d)}) ({name} 1)))"
        step = self.within(n, lambda: self.number(d - 1))
        return (
            f"(labels (({name} ({n}) (if (<= {n} 0) 1 (mod (+ {step} ({name} (- {n} 1))) 10007))))"
            f" ({name} {self.random.randint(0, 6)}))"
        )

    def closure(self, d: int) -> str:
        n, f = self.fresh(), self.fresh()
        return (
            f"(let* (({n} {self.number(d)}) ({f} (lambda () (incf {n} 2))))"
            f" (funcall {f}) (setq {n} (* {n} 3)) (+ (funcall {f}) {n}))"
        )

    def block(self, d: int) -> str:
        name = f"b{self.fresh()}"
        inner = f"(return-from {name} {self.number(d)})"
        if self.random.random() < 0.5:
            inner = f"(funcall (lambda () {inner}))"
        return f"(block {name} (when {self.truth(d)} {inner}) {self.number(d)})"

    def tagbody(self, d: int) -> str:
        n, total = self.fresh(), self.fresh()
        step = self.within(n, lambda: self.number(d - 1))
        return (
            f"(let (({n} 0) ({total} 0)) (tagbody again (setq {total} (mod (+ {total} {step}) 1009))"
            f" (incf {n}) (when (< {n} {self.random.randint(1, 4)}) (go again))) {total})"
        )

    def catch(self, d: int) -> str:
        return f"(catch 'tag (+ 1 (if {self.truth(d)} (throw 'tag {self.number(d)}) 5)))"

    def unwinding(self, d: int) -> str:
        n = self.fresh()
        return (
            f"(let (({n} 1)) (catch 'out (unwind-protect (throw 'out {self.number(d)})"
            f" (incf {n} 5))) (+ {n} {self.number(d)}))"
        )

    def handler(self, d: int) -> str:
        r = self.random
        bad = r.choice(
            [
                '(error "x")',
                "(car 5)",
                "(/ 1 0)",
                "(throw 'nowhere 1)",
                "(aref (vector 1 2) 9)",
                '(parse-integer "z")',
                "(signal 'simple-condition)",
                "(funcall (lambda (x) x))",
                "(symbol-value 'no-such-variable)",
                "(funcall 'no-such-function)",
                "(+ 1 (vector))",
            ]
        )
        condition = r.choice(["error", "type-error", "arithmetic-error", "control-error"])
        body = f"(progn (when {self.truth(d)} {bad}) {self.number(d)})"
        if r.random() < 0.5:
            return (
                f"(handler-case {body} ({condition} () {self.number(d)}) (error () -77)"
                f"{' (:no-error (x &rest more) (declare (ignore more)) (+ x 1))' * r.randint(0, 1)})"
            )
        name = f"h{self.fresh()}"
        return (
            f"(block {name} (handler-bind (({condition} (lambda (c) (declare (ignore c))"
            f" (return-from {name} {self.number(d)}))) (error (lambda (c) (declare (ignore c))"
            f" (return-from {name} -5)))) {body}))"
        )

    def restart(self, d: int) -> str:
        return (
            f"(handler-bind ((error (lambda (c) (declare (ignore c))"
            f" (invoke-restart 'use {self.number(d)})))) (+ 1 (restart-case (if {self.truth(d)}"
            f' (error "y") {self.number(d)}) (use (v) (* v 2)))))'
        )

    def loop_number(self, d: int) -> str:
        r = self.random
        n = self.fresh()
        inner = self.within(n, lambda: self.number(d - 1))
        test = self.within(n, lambda: self.truth(d - 1))
        source = r.choice(
            [
                f"for {n} from {r.randint(-3, 3)} to {r.randint(0, 5)}",
                f"for {n} from 5 downto {r.randint(0, 5)} by {r.randint(1, 3)}",
                f"for {n} in {self.integers(d - 1)}",
                f"for {n} across (vector 1 2 {self.number(d - 1)})",
                f"for {n} below {r.randint(0, 5)}",
                f"repeat 3 for {n} = 1 then (+ {n} 2)",
            ]
        )
        clause = r.choice(
            [
                f"sum {inner}",
                f"count {test}",
                f"maximize {inner} into m finally (return (or m 0))",
                f"when {test} sum {n} else sum 1",
                f"while {test} count t",
                f"do (when {test} (return {inner})) finally (return -1)",
            ]
        )
        return f"(loop {source} {clause})"

    def do_loop(self, d: int) -> str:
        r = self.random
        a, b = self.fresh(), self.fresh()
        kind = r.choice(["do", "do*", "dotimes", "dolist"])
        if kind == "dotimes":
            body = self.within(a, lambda: self.number(d - 1))
            limit = r.randint(0, 4)
            return f"(let (({b} 0)) (dotimes ({a} {limit} (+ {a} {b})) (setq {b} {body})))"
        if kind == "dolist":
            body = self.within(a, lambda: self.number(d - 1))
            return f"(let (({b} 0)) (dolist ({a} {self.integers(d)} {b}) (decf {b} {body})))"
        step = self.within(a, lambda: self.within(b, lambda: self.number(d - 1)))
        return (
            f"({kind} (({a} 0 (1+ {a})) ({b} 1 (mod (+ {b} {step}) 997)))"
            f" ((>= {a} {r.randint(0, 4)}) (+ {a} {b})))"
        )

    def several(self, d: int) -> str:
        a, b, c = self.fresh(), self.fresh(), self.fresh()
        return self.random.choice(
            [
                f"(multiple-value-bind ({a} {b} {c}) (values {self.number(d)} {self.number(d)})"
                f" (list {c}) (+ {a} {b}))",
                f"(nth-value {self.random.randint(0, 1)} (values {self.number(d)} {self.number(d)}))",
                f"(multiple-value-call #'+ (values {self.number(d)} 1) {self.number(d)})",
                f"(reduce #'+ (multiple-value-list (floor {self.number(d)} 3)))",
                f"(multiple-value-prog1 {self.number(d)} {self.number(d)})",
            ]
        )

    def place(self, d: int) -> str:
        v, i = self.fresh(), self.fresh()
        n = [self.number(d) for _ in range(3)]
        return self.random.choice(
            [
                f"(let (({v} (vector 1 2 3)) ({i} 0)) (incf (aref {v} (mod (incf {i}) 3)) {n[0]})"
                f" (+ {i} (aref {v} 1)))",
                f"(let (({v} (list {n[0]} {n[1]}))) (push {n[2]} (cdr {v})) (rotatef (first {v})"
                f" (third {v})) (- (first {v}) (second {v})))",
                f"(let (({v} {n[0]}) ({i} {n[1]})) (psetf {v} {i} {i} {v}) (shiftf {v} {i} {n[2]})"
                f" (+ (* 3 {v}) {i}))",
                f"(let (({v} (list :a 1))) (setf (getf {v} :b) {n[0]}) (decf (getf {v} :a))"
                f" (remf {v} :c) (+ (getf {v} :a) (getf {v} :b)))",
                f"(let (({v} (list 1 2 3))) (setf (subseq {v} 1) (list {n[0]} 9)) (nth 1 {v}))",
            ]
        )

    def sequence_number(self, d: int) -> str:
        n = self.fresh()
        test = self.within(n, lambda: self.truth(d - 1))
        items = self.integers(d)
        return self.random.choice(
            [
                f"(length {items})",
                f"(reduce #'+ {items} :initial-value {self.number(d)})",
                f"(count-if (lambda ({n}) {test}) {items})",
                f"(or (find-if (lambda ({n}) {test}) {items}) -3)",
                f"(or (position {self.number(d)} {items}) -1)",
                f"(or (mismatch {items} {self.integers(d)}) 55)",
                f"(or (search (list 1) {items}) 12)",
                f"(if (some (lambda ({n}) {test}) {items}) 1 2)",
                f"(reduce (lambda (a b) (- a b)) {items} :from-end t :initial-value 0)",
                f"(or (second (assoc {self.number(d)} (list (list 1 2) (list 0 5)))) 8)",
            ]
        )

    def text_number(self, d: int) -> str:
        return self.random.choice(
            [
                f"(length {self.text(d)})",
                f"(or (position #\\a {self.text(d)}) -4)",
                f'(char-code (char (concatenate \'string {self.text(d)} "q") 0))',
                f"(or (string< {self.text(d)} {self.text(d)}) -6)",
                f"(or (parse-integer {self.text(d)} :junk-allowed t) 31)",
            ]
        )

    def table(self, d: int) -> str:
        h = self.fresh()
        test = self.random.choice(["eql", "equal", "equalp"])
        key = (
            self.number(d)
            if test == "eql"
            else self.random.choice([self.number(d), self.text(d), self.integers(d)])
        )
        return (
            f"(let (({h} (make-hash-table :test '{test}))) (setf (gethash {key} {h}) {self.number(d)})"
            f" (incf (gethash {key} {h} 3) 10) (remhash 1 {h})"
            f" (+ (hash-table-count {h}) (gethash {key} {h} 0)))"
        )

    def destructuring(self, d: int) -> str:
        a, b, c = self.fresh(), self.fresh(), self.fresh()
        return self.random.choice(
            [
                f"(destructuring-bind ({a} ({b} &rest more) &optional ({c} 4))"
                f" (list {self.number(d)} (list {self.number(d)} 7)) (+ {a} {b} {c} (car more)))",
                f"(destructuring-bind ({a} &key {b} &allow-other-keys) (list {self.number(d)} :{b} 2)"
                f" (* {a} {b}))",
                f"(macrolet ((m (({a} {b}) &body body) `(let ((,{a} ,{b})) ,@body)))"
                f" (m (z {self.number(d)}) (* z 2)))",
            ]
        )

    def case(self, d: int) -> str:
        n = self.number(d)
        return self.random.choice(
            [
                f"(case (mod {n} 4) (0 {self.number(d)}) ((1 2) {self.number(d)}) (t 9))",
                f"(typecase {self.random.choice([n, self.text(d), self.integers(d), ':k'])}"
                f" (integer 1) (string 2) (null 3) (cons 4) (keyword 5) (t 6))",
                f"(ecase (signum {n}) (-1 {self.number(d)}) (0 4) (1 {self.number(d)}))",
            ]
        )

    # ------------------------------------------------------------ truths

    def truth(self, depth: int) -> str:
        r = self.random
        return self.pick(
            depth,
            [lambda: "t", lambda: "nil", lambda: f"(evenp {self.variable()})"],
            [
                lambda d: (
                    f"({r.choice(['<', '>', '=', '/=', '<=', '>='])} {self.number(d)} {self.number(d)})"
                ),
                lambda d: f"(not {self.truth(d)})",
                lambda d: f"(and {self.truth(d)} {self.truth(d)})",
                lambda d: f"(or {self.truth(d)} {self.truth(d)})",
                lambda d: f"({r.choice(['plusp', 'minusp', 'zerop', 'oddp'])} {self.number(d)})",
                lambda d: f"(member {self.number(d)} {self.integers(d)})",
                lambda d: (
                    f"({r.choice(['equal', 'equalp'])} {self.integers(d)} {self.integers(d)})"
                ),
                lambda d: (
                    f"({r.choice(['string=', 'string-equal', 'equal'])} {self.text(d)} {self.text(d)})"
                ),
                lambda d: (
                    f"(typep {self.number(d)} '(integer {r.randint(-9, 0)} {r.randint(0, 99)}))"
                ),
                lambda d: f"(every #'integerp {self.integers(d)})",
            ],
        )

    # ------------------------------------------------------------ lists, strings, other numbers

    def integers(self, depth: int) -> str:
        n = self.fresh()
        r = self.random

        def body(d: int) -> str:
            return self.within(n, lambda: self.number(d - 1))

        def test(d: int) -> str:
            return self.within(n, lambda: self.truth(d - 1))

        return self.pick(
            depth,
            [lambda: "nil", lambda: "(list 3 1 2)", lambda: f"(list {self.variable()} 5)"],
            [
                lambda d: f"(list {self.number(d)} {self.number(d)})",
                lambda d: f"(cons {self.number(d)} {self.integers(d)})",
                lambda d: f"(append {self.integers(d)} {self.integers(d)})",
                lambda d: f"(mapcar (lambda ({n}) {body(d)}) {self.integers(d)})",
                lambda d: f"(remove-if (lambda ({n}) {test(d)}) {self.integers(d)})",
                lambda d: f"(sort (copy-list {self.integers(d)}) #'{r.choice('<>')})",
                lambda d: f"(reverse {self.integers(d)})",
                lambda d: f"(remove-duplicates {self.integers(d)})",
                lambda d: f"(union nil (remove-duplicates {self.integers(d)}))",
                lambda d: f"(substitute 9 {self.number(d)} {self.integers(d)})",
                lambda d: f"(loop for {n} in {self.integers(d)} when {test(d)} collect {n})",
                lambda d: f"(loop for {n} below {r.randint(0, 4)} collect {body(d)})",
                lambda d: f"(coerce (vector {self.number(d)} 2) 'list)",
                lambda d: f"(subseq (list 1 2 {self.number(d)}) {r.randint(0, 3)})",
                lambda d: f"`(1 ,{self.number(d)} ,@{self.integers(d)})",
                lambda d: f"(butlast {self.integers(d)} {r.randint(0, 2)})",
                lambda d: f"(nthcdr {r.randint(0, 2)} {self.integers(d)})",
                lambda d: f"(map 'list #'1+ {self.integers(d)})",
                lambda d: f"(mapcan (lambda ({n}) (list {n} {body(d)})) {self.integers(d)})",
                lambda d: f"(merge 'list (list 1 5) (sort (copy-list {self.integers(d)}) #'<) #'<)",
            ],
        )

    def text(self, depth: int) -> str:
        r = self.random
        return self.pick(
            depth,
            [lambda: '"abc"', lambda: '""', lambda: f'"{r.randint(0, 99)} Bottles"'],
            [
                lambda d: f'(format nil "{self.directives()}" {self.number(d)} {self.number(d)})',
                lambda d: f'(format nil "~{{~a~^, ~}}" {self.integers(d)})',
                lambda d: (
                    f'(format nil "~[zero~;one~:;many~] ~:[no~;yes~]" (mod {self.number(d)} 4) {self.truth(d)})'
                ),
                lambda d: (
                    f"({r.choice(['string-upcase', 'string-downcase', 'string-capitalize', 'reverse'])} {self.text(d)})"
                ),
                lambda d: f"(concatenate 'string {self.text(d)} {self.text(d)})",
                lambda d: f'(subseq (concatenate \'string {self.text(d)} "xyz") {r.randint(0, 3)})',
                lambda d: f'(string-trim "ab " {self.text(d)})',
                lambda d: f"(substitute #\\o #\\a {self.text(d)})",
                lambda d: f"(remove #\\b {self.text(d)})",
                lambda d: f"(prin1-to-string {self.ratio(d)})",
                lambda d: (
                    f"(with-output-to-string (s) (princ {self.number(d)} s) (write-string {self.text(d)} s))"
                ),
            ],
        )

    def directives(self) -> str:
        return self.random.choice(
            [
                "~d~d",
                "~5d|~a",
                "~,,'.,3:d ~@d",
                "~r and ~:r",
                "~b ~x",
                "~8,'0d~3@a",
                "~a~%~s",
                "~10<~a~;~a~>",
                "~p~:*~a ~a",
            ]
        )

    def ratio(self, depth: int) -> str:
        r = self.random
        return self.pick(
            depth,
            [lambda: f"{r.randint(-9, 9)}/{r.choice([2, 3, 7])}", self.literal],
            [
                lambda d: f"(/ {self.ratio(d)} {r.choice(['3', '-2/5', '7'])})",
                lambda d: f"({r.choice('+-*')} {self.ratio(d)} {self.ratio(d)})",
                lambda d: (
                    f"({r.choice(['abs', 'numerator', 'denominator', '1+', '-', 'signum'])} {self.ratio(d)})"
                ),
                lambda d: f"(expt {r.randint(2, 4)} {r.randint(-4, 5)})",
                lambda d: (
                    f"({r.choice(['floor', 'round', 'truncate', 'ceiling'])} {self.ratio(d)})"
                ),
                lambda d: f"(mod {self.ratio(d)} {r.choice(['3', '5/2', '-4'])})",
                lambda d: f"(rational (/ {r.randint(-16, 16)} 8.0d0))",
            ],
        )

    def decimal(self, depth: int) -> str:
        r = self.random
        return self.pick(
            depth,
            [lambda: f"{r.randint(-99, 99) / 8}d0", lambda: "1.5d0"],
            [
                lambda d: f"({r.choice('+-*')} {self.decimal(d)} {self.decimal(d)})",
                lambda d: f"(float {self.ratio(d)} 1d0)",
                lambda d: f"(sqrt (abs {self.decimal(d)}))",
                lambda d: f"(values (ffloor {self.decimal(d)} 0.75d0))",
                lambda d: f"(nth-value 1 (round {self.decimal(d)} 2))",
                lambda d: f"(max {self.decimal(d)} {self.decimal(d)})",
            ],
        )


def program(seed: int) -> str:
    """One form, from its seed."""
    maker = Maker(seed)
    kind = maker.random.choice(
        [maker.number] * 5
        + [maker.integers] * 2
        + [maker.text] * 2
        + [maker.truth, maker.ratio, maker.decimal]
    )
    return kind(maker.random.randint(2, 5))
