"""The jobs of `lisp.py`: one program each, in Common Lisp, Hy, Sheaf and Python, that defines a
function `job` and gives the same integer in all."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """A program by language; `sheaf` is None where Sheaf has no words for it."""

    name: str
    answer: int
    lisp: str
    hy: str
    python: str
    sheaf: str | None = None


def fib(n: int, answer: int, sheaf: bool) -> Job:
    """Calls, comparisons, small sums. Sheaf computes with jax arrays: only a small one."""
    clojure = f"""(defn fib [n] (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
        (defn job [] (fib {n}))"""
    return Job(
        f"fib {n}",
        answer,
        f"""(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
        (defun job () (fib {n}))""",
        clojure,
        f"""
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def job():
    return fib({n})
""",
        clojure if sheaf else None,
    )


JOBS = [
    fib(16, 987, sheaf=True),
    fib(24, 46368, sheaf=False),
    Job(
        "loop of 10^6",
        499999500000,
        "(defun job () (let ((s 0)) (dotimes (i 1000000 s) (setq s (+ s i)))))",
        "(defn job [] (setv s 0) (for [i (range 1000000)] (setv s (+ s i))) s)",
        """
def job():
    s = 0
    for i in range(1000000):
        s = s + i
    return s
""",
    ),
    Job(
        "lists of 10^5",
        7499850000,
        """(defun job ()
          (reduce #'+ (remove-if #'oddp (mapcar (lambda (x) (* 3 x))
                                                (loop for i below 100000 collect i)))))""",
        """(defn job []
          (setv l [])
          (for [i (range 100000)] (.append l i))
          (sum (list (filter (fn [x] (= (% x 2) 0)) (list (map (fn [x] (* 3 x)) l))))))""",
        """
def job():
    l = []
    for i in range(100000):
        l.append(i)
    return sum(list(filter(lambda x: x % 2 == 0, list(map(lambda x: 3 * x, l)))))
""",
    ),
    Job(
        "sort of 10^5",
        1081105293,
        """(defun job ()
          (let ((x 1) (l nil))
            (dotimes (i 100000)
              (setq x (mod (+ (* x 1103515245) 12345) 2147483648))
              (push x l))
            (nth 50000 (sort l #'<))))""",
        """(defn job []
          (setv x 1 l [])
          (for [i (range 100000)]
            (setv x (% (+ (* x 1103515245) 12345) 2147483648))
            (.append l x))
          (get (sorted l) 50000))""",
        """
def job():
    x, l = 1, []
    for i in range(100000):
        x = (x * 1103515245 + 12345) % 2147483648
        l.append(x)
    return sorted(l)[50000]
""",
    ),
    Job(
        "strings, 2·10^4",
        200000,
        """(defun job ()
          (let ((n 0))
            (dotimes (i 20000 n)
              (let ((s (concatenate 'string "abc" (string-upcase "def") "ghi")))
                (incf n (+ (length s) (if (string= s "abcDEFghi") 0 1)
                           (if (search "DEF" s) 1 0)))))))""",
        """(defn job []
          (setv n 0)
          (for [i (range 20000)]
            (setv s (+ "abc" (.upper "def") "ghi"))
            (setv n (+ n (len s) (if (= s "abcDEFghi") 0 1) (if (in "DEF" s) 1 0))))
          n)""",
        """
def job():
    n = 0
    for i in range(20000):
        s = "abc" + "def".upper() + "ghi"
        n += len(s) + (0 if s == "abcDEFghi" else 1) + (1 if "DEF" in s else 0)
    return n
""",
    ),
    Job(
        "hash table, 10^5",
        100000,
        """(defun job ()
          (let ((h (make-hash-table)) (n 0))
            (dotimes (i 100000) (incf (gethash (mod i 1000) h 0)))
            (maphash (lambda (k v) (incf n (if (>= k 0) v 0))) h)
            n))""",
        """(defn job []
          (setv h {} n 0)
          (for [i (range 100000)] (setv (get h (% i 1000)) (+ 1 (.get h (% i 1000) 0))))
          (for [[k v] (.items h)] (setv n (+ n (if (>= k 0) v 0))))
          n)""",
        """
def job():
    h, n = {}, 0
    for i in range(100000):
        h[i % 1000] = 1 + h.get(i % 1000, 0)
    for k, v in h.items():
        n += v if k >= 0 else 0
    return n
""",
    ),
    Job(
        "macros, 150 expansions of 20",
        31500,
        """(defmacro sum-to (n) (if (= n 0) 0 `(+ ,n (sum-to ,(1- n)))))
        (defun job ()
          (let ((s 0))
            (dotimes (i 150 s) (setq s (+ s (eval (list 'sum-to 20)))))))""",
        """(defmacro sum-to [n] (if (= (int n) 0) 0 `(+ ~n (sum-to ~(- n 1)))))
        (defn job []
          (setv s 0)
          (for [i (range 150)] (setv s (+ s (hy.eval '(sum-to 20) (globals) :module __name__))))
          s)""",
        """
def sum_to(n):
    return "0" if n == 0 else f"({n} + {sum_to(n - 1)})"
def job():
    s = 0
    for i in range(150):
        s += eval(sum_to(20))
    return s
""",
    ),
]
