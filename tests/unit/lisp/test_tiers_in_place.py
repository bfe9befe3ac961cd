"""What hot code does in place of calls means what the closures and the builtins mean: functions
applied to elements, a function's calls of itself, strings that are only texts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from both_tiers import answers, shown

SAME = {
    "mapcar and its kin": """
        (defun f (l k) (list (mapcar (lambda (x) (* k x)) l) (mapcar #'1+ l) (mapcar #'list l)
                             (mapcar #'evenp l) (mapc (lambda (x) (incf k x)) l) k))
        (list (f '(1 2 3) 2) (f nil 2) (f '(5) 0))""",
    "long lists, which are charged by blocks": """
        (defun f (n) (let ((l (loop for i below n collect i)))
          (list (reduce #'+ (mapcar (lambda (x) (* 2 x)) l)) (length (remove-if #'oddp l))
                (reduce (lambda (a b) (+ a b)) (mapcar #'1+ l)))))
        (mapcar #'f '(1 255 256 257 511 512 513 1023 1024 1025 5000))""",
    "removing": """
        (defun f (s k) (list (remove-if (lambda (x) (eql x k)) s) (remove-if-not (lambda (x) (eql x k)) s)
                             (remove-if #'null s) (remove-if-not #'symbolp s) (delete-if #'symbolp (copy-seq s))
                             (delete-if-not (lambda (x) (or (symbolp x) (eql x k))) (copy-seq s))))
        (list (f '(1 2 a nil 1) 1) (f nil 1) (f (vector 1 2 'a nil) 2) (f "banana" #\\a))""",
    "nothing removed is the sequence itself": """
        (defun f (l) (eq l (remove-if (lambda (x) (< x 0)) l)))
        (list (f (list 1 2 3)) (f (list 1 -2 3)) (f nil))""",
    "finding, counting, asking": """
        (defun f (s k) (list (find-if (lambda (x) (eql x k)) s) (find-if-not #'symbolp s) (count-if (lambda (x) (eql x k)) s)
                             (count-if-not #'symbolp s) (every (lambda (x) (or (symbolp x) (eql x k))) s) (every #'symbolp s)
                             (some (lambda (x) (and (eql x k) (list x))) s) (some #'consp s)))
        (list (f '(a 1 2 1 nil) 1) (f nil 1) (f (vector 1 (list 2)) 1) (f "abc" #\\b) (f '(a b) 'b)
              (every #'integerp (loop for i below 40 collect i)) (some #'null (loop for i below 40 collect i))
              (handler-case (f '(1 . 2) 1) (type-error () :bad)))""",
    "items looked for": """
        (defun f (x s) (list (find x s) (count x s) (remove x s) (delete x (copy-seq s)) (find 'a s) (remove 2 s) (count nil s) (find 1.0 s)
                             (eq s (remove x s)) (find (progn (setq x 2) x) s) (mapcar #'list (remove x (loop for y in (coerce s 'list) collect y)))))
        (list (f 1 '(1 2 a nil 1)) (f 'a nil) (f 1.0 '(1 1.0 2)) (f 1/2 (list 1/2 2)) (f 2 (vector 1 2 2)) (f #\\a "banana") (f "a" '("a" 2))
              (f nil '(nil 2)) (handler-case (f 1 '(3 . 4)) (type-error (c) (list :bad (type-error-datum c))))
              (handler-case (f 1 5) (type-error (c) (list :bad (type-error-datum c)))))""",
    "reducing": """
        (defun f (s) (list (reduce (lambda (a b) (- a b)) s) (reduce #'max s)))
        (list (f '(10 2 3)) (f '(7)) (f (vector 1 2)) (reduce (lambda (&rest r) r) nil)
              (handler-case (reduce (lambda (a b) (+ a b)) nil) (program-error () :none)))""",
    "closures over the elements": """
        (defun f (l) (mapcar (lambda (x) (let ((y (* x x))) (lambda () (list (incf x) (decf y))))) l))
        (let ((fs (f '(1 2 3)))) (list (mapcar #'funcall fs) (mapcar (lambda (g) (funcall g)) fs)))""",
    "an exit out of the function": """
        (defun f (l) (mapc (lambda (x) (when (evenp x) (return-from f (list :even x)))) l) :none)
        (defun g (l) (loop for k below 5 collect (block b (remove-if (lambda (x) (when (> x k) (return-from b x)) nil) l))))
        (list (f '(1 3 4)) (f '(1 3)) (g '(1 3 2)))""",
    "a go out of the function": """
        (defun f (l) (let ((seen nil)) (tagbody (mapc (lambda (x) (if (eq x 'end) (go out) (push x seen))) l)
                                                (push :all seen) out) seen))
        (list (f '(1 2 end 3)) (f '(1 2)))""",
    "functions in functions": """
        (defun f (rows) (mapcar (lambda (row) (reduce (lambda (a b) (+ a b)) (mapcar (lambda (x) (* x (length row))) row))) rows))
        (list (f '((1 2) (3 4 5) (6))) (handler-case (f '((1 a))) (type-error (c) (type-error-datum c))))""",
    "a list changed under way": """
        (defun f (l) (mapcar (lambda (x) (setf (cddr l) nil) x) l))
        (f (list 1 2 3 4))""",
    "what is no list": """
        (defmacro fails (form) `(handler-case ,form (type-error (c) (list :bad (type-error-datum c)))))
        (defun f (x) (list (fails (mapcar (lambda (x) x) x)) (fails (mapc #'list x)) (fails (remove-if #'null x))
                           (fails (reduce (lambda (a b) (list a b)) x))))
        (list (f 5) (f '(1 2 . 3)) (f '(1 . 2)) (f 'a))""",
    "several values and none": """
        (defun f (l) (list (mapcar (lambda (x) (floor x 2)) l) (mapcar (lambda (x) (values)) l)
                           (remove-if (lambda (x) (values nil x)) l) (mapcar #'truncate l)))
        (f '(5 6))""",
    "a circular list": """
        (defun f (l) (handler-case (remove-if #'null l) (type-error () :circular)))
        (let ((l (list 1 2 3))) (setf (cdddr l) l) (list (f (list 1 nil)) (f l)))""",
    "lists that are only elements": """
        (defun f (n k) (list
          (reduce #'+ (remove-if #'oddp (mapcar (lambda (x) (* k x)) (loop for i below n collect i))))
          (mapcar #'list (mapcar #'1+ (loop for i from 1 to n when (evenp i) collect i)))
          (remove-if-not (lambda (x) (> x k)) (mapcar #'1+ (loop repeat n collect k)))
          (remove-if #'null (delete-if-not #'symbolp (mapcar (lambda (x) (if (> x 2) 'a x)) (loop for i below n collect i))))
          (find-if #'evenp (mapcar #'1+ (loop for i below n collect i)))
          (some (lambda (x) (and (> x 4) (list x))) (remove-if #'oddp (loop for i below n collect i)))
          (every #'integerp (mapcar (lambda (x) (values x 'a)) (loop for i below n collect i)))
          (reduce (lambda (a b) (- a b)) (mapcar #'1+ (loop for i to n collect i)))
          (reduce #'max (mapcar #'1+ (loop for i to n collect (* 0.5 i))))
          (reduce #'+ (mapcar #'identity (loop for i below n collect i)))
          (length (remove-if #'oddp (loop for i below n collect i)))
          (apply #'+ k n (mapcar #'1+ (loop for i below n collect i)))
          (apply (lambda (&rest r) (length r)) (loop repeat n collect k))))
        (mapcar (lambda (n) (f n 3)) '(0 1 2 5 33 255 256 257 513 1100))""",
    "loops whose lists are more than elements": """
        (defun f (l) (list
          (mapcar #'1+ (loop for x in l collect x into y do (setq y (reverse y)) finally (return y)))
          (mapcar #'1+ (loop for x in l when (> x 2) return (list x) collect x))
          (mapcar #'1+ (loop for x in l collect x append (list x x)))
          (mapcar #'1+ (loop for x in l collect x nconc (list x) into z collect (* 10 x)))
          (block b (mapcar #'1+ (loop for x in l when (> x 2) do (return-from b (list :out x)) collect x)))
          (mapcar #'1+ (loop named a for x in l when (= x 9) do (return-from a nil) collect x))
          (mapcar #'1+ (loop for x in l until (= x 3) collect x finally (setq l '(7))))
          (mapcar #'funcall (loop for x in l collect (let ((y x)) (lambda () (incf y)))))
          (mapcar #'1+ (loop for x in l do (handler-case (error "x") (error () nil)) collect x))
          l))
        (list (f '(1 2)) (f '(1 2 3)) (f nil))""",
    "lists sorted for another": """
        (defun f (k n) (let ((l nil) (m (list 3 1 2)) (w nil) (x 7))
          (dotimes (i n) (setq x (mod (+ (* 5 x) 3) 1000)) (push x l) (push (format nil "~d" x) w))
          (list (nth k (sort l #'<)) (nth k (sort m #'>)) (nth k (stable-sort w #'string<)) (mapcar #'1+ (sort (list 2 1 k) #'<))
                (nth k (sort (mapcar (lambda (x) (* 0.5 x)) (loop for i below n collect (- i))) #'<))
                (reduce #'+ (sort (cons n l) #'<)) (nth 0 (sort nil #'<)) (nth k (sort (list 2.5 k) #'>)) (length (sort l #'<)) m)))
        (list (f 0 3) (f 2 40) (f 1024 1030) (f 5000 30)
              (handler-case (nth 0 (sort (list 2 'a) #'<)) (type-error (c) (type-error-datum c)))
              (handler-case (nth 'a (sort (list 2 1) #'<)) (type-error (c) (type-error-datum c)))
              (nth 0 (sort (list 1/2 1/3) #'<))
              (let ((v nil)) (setq v (vector 3 1)) (handler-case (nth 0 (sort v #'<)) (type-error () :vector)))
              (let ((c (list 1 2))) (setf (cddr c) c) (handler-case (nth 0 (sort (cons 0 c) #'<)) (type-error () :circular))))""",
    "lists of elements in loops and closures": """
        (let ((seen nil))
          (dotimes (i 4)
            (push (mapcar #'funcall (loop for j below i collect (let ((k (* i j))) (lambda () (incf k))))) seen)
            (push (mapcar (lambda (x) (lambda () (list i x))) (mapcar #'1+ (loop for j below i collect j))) seen))
          (mapcar (lambda (l) (mapcar (lambda (x) (if (functionp x) (funcall x) x)) l)) seen))""",
    "exits out of what goes through elements": """
        (defun f (n) (mapcar (lambda (x) (when (= x 300) (return-from f (list :at x))) x) (loop for i below n collect i)) :none)
        (defun g (n) (loop for k below 3 collect (block b
          (remove-if (lambda (x) (when (> x k) (return-from b x)) nil) (mapcar #'1+ (loop for i below n collect i))))))
        (defun h (n) (let ((s 0)) (tagbody (mapcar (lambda (x) (incf s x) (when (> x 260) (go out))) (loop for i below n collect i))
          (setq s :all) out) s))
        (list (f 299) (f 400) (g 1) (g 5) (h 10) (h 300))""",
    "calls of oneself": """
        (defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
        (defun len (l) (if (null l) 0 (1+ (len (cdr l)))))
        (defun low (n) (if (not (> n 1)) :low (low (- n 1))))
        (defun until (n l) (if (consp l) (until (+ n 1) (cdr l)) (list n l)))
        (defun count-down (n end) (if (endp end) n (count-down (- n 1) (cdr end))))
        (list (fib 12) (fib 3.5) (fib 2.5) (len '(1 2 3)) (low 7) (low 2.5) (until 0 '(1 2)) (until 0 5)
              (count-down 9 '(1 2 3)) (handler-case (count-down 9 '(1 . 2)) (type-error () :bad))
              (handler-case (fib 'a) (type-error () :bad)))""",
    "oneself, redefined under way": """
        (defun f (n) (if (< n 2) (list :old n)
          (progn (when (= n 4) (eval '(defun f (n) (list :new n)))) (f (- n 1)))))
        (list (f 3) (f 6) (f 1))""",
    "oneself, called otherwise": """
        (defun f (n &optional (m 0)) (if (< n 1) m (f (- n 1) (+ m n))))
        (defun g (n m) (if (< n 1) m (g (- n 1))))
        (list (f 5) (handler-case (g 3 0) (program-error () :count)) (g 0 5))""",
    "strings that are texts": """
        (defun f (a b) (let* ((s (concatenate 'string a (string-upcase b) "x")) (n (length s)))
          (list n (string= s "ABx") (if (search "B" s) :b :none) (search "x" s)
                (let ((u (string-upcase s))) (if (string= u s) :same (length u))))))
        (list (f "A" "b") (f "" "") (f "long enough to go to the builtin" "and this one, too, is long")
              (handler-case (f 5 "a") (type-error () :bad))
              (f (make-array 3 :element-type 'character :fill-pointer 1 :initial-element #\\A) "b"))""",
    "strings that somebody keeps": """
        (defun f (a) (let ((s (concatenate 'string a "-")) (u (string-upcase a)) (kept nil))
          (setf (char u 0) #\\z)
          (setq kept (lambda () (length s)))
          (list (length u) u (funcall kept) (handler-case (string= s 5) (type-error () s)))))
        (list (f "abc") (f "b"))""",
    "a string that a closure of the evaluator looks at": """
        (defun f (a) (let ((s (string-upcase a)))
          (list (length s) (handler-case (progn (search "A" s) (string= s "AB")) (error () :no)))))
        (list (f "ab") (f "c"))""",
    "strings compared": """
        (defun f (a) (list (string= a "abc") (string= "abc" a) (if (string= a a) 1 2) (string= a "abcdefghijklmnopqrstuvw")
                           (string= "abcdefghijklmnopqrstuvw" a) (search "" a) (search a "abcabc")))
        (list (f "abc") (f "") (f "abcdefghijklmnopqrstuvw") (handler-case (f 'a) (type-error () :symbol)))""",
    "tables": """
        (let ((h (make-hash-table)) (e (make-hash-table :test 'equalp)) (q (make-hash-table :test 'equal)))
          (dotimes (i 40) (incf (gethash (mod i 7) h 0)) (setf (gethash (* 1.0 (mod i 5)) e) i)
                          (setf (gethash (mod i 9) e) (- i)) (push i (gethash (list (mod i 3)) q)))
          (remhash 1.0 e) (setf (gethash 1 e) :again) (remhash '(0) q) (setf (gethash (list 0) q) :new)
          (flet ((all (table) (let ((l nil)) (maphash (lambda (k v) (push (list k v) l)) table) l)))
            (let ((before (list (all h) (all e) (all q) (hash-table-count e))))
              (clrhash q) (setf (gethash "a" q) 1)
              (list before (all q) (loop for k being the hash-keys of e using (hash-value v) collect (cons k v))))))""",
    "sums in sums": """
        (defun f (n) (let ((s 0)) (dotimes (i n) (setq s (+ s %s))) s))
        (defun g (n) (let ((s 0)) (dotimes (i n) (setq s (+ s (+ i (progn (setq s (* 2 s)) s))))) s))
        (list (f 3) (f 5) (g 6))"""
    % ("(+ i " * 150 + "1" + ")" * 150 + " " + "(- " * 150 + "i" + " 1)" * 150),
    "quotients": """
        (defun f (n) (multiple-value-bind (q r) (floor n 7) (multiple-value-bind (s u) (truncate n 7)
          (list q r s u (floor n 7) (+ 1 (truncate n 7)) (multiple-value-list (floor n 1)) (floor n -7) (if (floor n 2) 1 2)))))
        (defun g () (let ((l nil)) (dotimes (i 9) (push (list (floor i 4) (multiple-value-list (truncate i 4))) l)) l))
        (defun h (n) (handler-case (floor n 0) (division-by-zero () :zero)))
        (list (mapcar #'f (list 0 1 -1 13 14 -14 -15 2.5 -2.5 1/2 -9/2 (expt 10 30) (- (expt 10 30)))) (g) (h 5)
              (handler-case (f 'a) (type-error (c) (type-error-datum c))))""",
    "elements that are set": """
        (defun f (v i x) (list (setf (aref v i) x) (incf (aref v i)) (progn (rotatef (aref v 0) (aref v i)) v)))
        (defmacro fails (form) `(handler-case ,form (type-error (c) (list :bad (type-error-datum c))) (program-error () :literal)))
        (list (f (vector 1 2 3) 2 7) (f (make-array 3 :fill-pointer 1 :initial-element 4) 2 0.5) (fails (f (vector 1) 1 2)) (fails (f (vector 1) -1 2))
              (fails (f (vector 1) 'a 2)) (fails (f 5 0 2)) (fails (f #(1 2) 0 2)) (fails (f "ab" 0 2))
              (let ((s (copy-seq "abc"))) (setf (aref s 1) #\\x) s))""",
    "places that are set by functions": """
        (defstruct pt x (y 1))
        (defvar *log* nil)
        (defun (setf spot) (new l n) (push (list :set new n) *log*) (setf (nth n l) new))
        (defun spot (l n) (nth n l))
        (defun note (x) (push x *log*) x)
        (defun f (p l i) (flet (((setf near) (new k) (push (list new k) *log*) (values new k)))
          (list (setf (pt-x (note p)) (note i)) (incf (pt-y p)) (push i (pt-x p)) (setf (spot (note l) (note 1)) (note i))
                (incf (spot l 0) 2) (multiple-value-list (setf (near (note 5)) (note i))) (setf (gethash (note i) (note (make-hash-table))) (note 3))
                (setf (char (copy-seq "abc") 1) #\\x) (rotatef (pt-x p) (pt-y p)))))
        (defmacro fails (form) `(handler-case ,form (type-error (c) (list :bad (type-error-datum c))) (error (c) (type-of c))))
        (defun bad (p) (list (fails (setf (pt-x 5) 1)) (fails (setf (spot p) 1)) (fails (setf (no-such-place p) 1)) (fails (setf (gethash 1 p) 2))))
        (let ((p (make-pt :x 1)) (l (list 1 2 3)))
          (list (f p l 3) (f (make-pt) l 4) p l (bad 7) (mapcar (lambda (x) (if (pt-p x) :pt (if (hash-table-p x) :table x))) *log*)
                (progn (defun (setf spot) (new l n) (list :other new l n)) (let ((f (lambda (l) (setf (spot l 0) 9)))) (list (funcall f 1) (funcall f 2))))))""",
    "products of known size": """
        (defun f () (let ((x 1) (y 3)) (dotimes (i 50) (setq x (mod (+ (* x 1103515245) 12345) 2147483648)) (setq y (* y y))
                                         (when (> y 1000000000000) (setq y 3))) (list x y)))
        (defun g (n) (let ((p 1)) (dotimes (i n) (setq p (* p (+ i 1)))) p))
        (list (f) (g 20) (g 80) (length (format nil "~d" (g 200))))""",
}


@pytest.mark.parametrize("mode", ["hot", "switched"])
def test_same_answers_and_fuel(mode: str) -> None:
    texts = list(SAME.values())
    for name, cold, other in zip(SAME, answers(texts, "cold"), answers(texts, mode), strict=True):
        assert "error" not in cold[0], (name, cold)
        assert other == cold, name


REPORTS = {
    "a lambda's error": "(defun f (l) (mapcar (lambda (x) (car x)) l))\n(f '((1) (2)))\n(f '((1) 2))",
    "a builtin's error": "(defun f (l) (mapcar #'car l))\n(f '((1) (2)))\n(f '((1) 2))",
    "a predicate's error": "(defun f (l) (remove-if #'oddp l))\n(f '(1 2))\n(f '(1 b))",
    "an error of a lambda in a lambda": """(defun f (rows)
  (mapcar (lambda (row) (reduce (lambda (a b) (+ a b)) row)) rows))
(f '((1 2) (3)))
(f '((1 2) (3 x)))""",
    "a call in a lambda": """(defun g (x) (aref x 0))
(defun f (l) (remove-if (lambda (x) (g x)) l))
(f '())
(f '(1 2))""",
    "no list": "(defun f (l) (mapcar (lambda (x) x) l))\n(f '(1))\n(f 5)",
    "a number for a list": "(defun f (x) (if x (mapcar #'car 5)))\n(f nil)\n(f t)",
    "a dotted list": "(defun f (l) (mapcar (lambda (x) x) l))\n(f '(1))\n(f '(1 . 2))",
    "no sequence": "(defun f (l) (remove-if (lambda (x) x) l))\n(f '(1))\n(f 5)",
    "a dotted list of reduce": "(defun f (l) (reduce (lambda (a b) (+ a b)) l))\n(f '(1))\n(f '(1 2 . 3))",
    "a circular list": "(defun f (l) (remove-if #'null l))\n(f '(1))\n(let ((l (list 1 2))) (setf (cddr l) l) (f l))",
    "the fuel of a mapped function": """(defun f (l) (loop (mapcar (lambda (x) (* x 2)) l)))
(f (loop for i below 300 collect i))""",
    "an element that does not fit": "(defun f (l) (mapcar #'1+ (loop for x in l collect x)))\n(f '(1))\n(f '(1 a))",
    "a sum of elements": "(defun f (l) (reduce #'+ (mapcar (lambda (x) x) l)))\n(f '(1))\n(f '(1 a))",
    "an element that cannot be sorted": "(defun f (a) (nth 0 (sort (list a 1) #'<)))\n(f 2)\n(f 'b)",
    "no place in a sorted list": "(defun f (n) (nth n (sort (list 2 1) #'<)))\n(f 0)\n(f -1)",
    "elements that do not add up": "(defun f (l) (apply #'+ (mapcar (lambda (x) x) l)))\n(f '(1))\n(f '(1 a))",
    "a place that is none": "(defun f (p) (setf (zork p) 1))\n(f 1)",
    "a place of something else": "(defstruct pt x)\n(defun f (p) (setf (pt-x p) 1))\n(f (make-pt))\n(f 5)",
    "a literal that is set": "(defun f (v) (setf (aref v 0) 1))\n(f (vector 1))\n(f #(1 2))",
    "no sequence to look in": "(defun f (s) (find 1 s))\n(f '(1))\n(f 5)",
    "no elements": "(defun f (l) (reduce #'max (mapcar (lambda (x) x) l)))\n(f '(1))\n(f '())",
    "a test of an element": "(defun f (l) (remove-if #'oddp (mapcar (lambda (x) x) l)))\n(f '(1))\n(f '(1 a))",
    "the fuel of elements": """(defun f (n) (loop (remove-if (lambda (x) (> x 3)) (mapcar #'1+ (loop for i below n collect i)))))
(f 300)""",
    "the fuel of leaves": """(defun f (n) (if (< n 1) n (progn (f 0) (f 0) (f n))))
(defun g () (loop (f -1) (h 3)))
(defun h (n) (if (< n 1) n (progn (h 0) (h (- n 1)))))
(h 2)
(g)""",
    "the wrong argument of oneself": "(defun f (n) (if (< n 2) n (f (list n))))\n(f 1)\n(f 5)",
    "a text that is none": """(defun f (a) (let ((s (concatenate 'string a "x"))) (length s)))
(f "a")
(f 5)""",
    "what is joined with a made string": """(defun f (a b) (concatenate 'string (string-upcase a) b))
(f "a" "b")
(f "a" 5)""",
    "a call of concatenate without arguments": "(defun f () (let ((s (concatenate))) (length s)))\n(f)",
    "a search for a symbol": '(defun f (a) (let ((s (string-upcase a))) (search \'x s)))\n(f "a")',
}


@pytest.mark.parametrize("mode", ["hot", "switched"])
@pytest.mark.parametrize("name", REPORTS)
def test_same_reports(name: str, mode: str) -> None:
    text = REPORTS[name]
    cold = shown(text, "cold", fuel=50_000)
    assert "error" in cold[0], cold[0]
    assert shown(text, mode, fuel=50_000) == cold


@pytest.mark.parametrize("mode", ["hot", "switched"])
def test_lists_that_are_only_elements_take_the_memory_of_their_conses(mode: str) -> None:
    text = (
        "(defun f (n) (reduce #'+ (remove-if #'oddp (mapcar #'1+ (loop for i below n collect i)))))"
    )
    mapped, left = 512 * 48, 300 * 48  # mapcar pays for whole blocks of 256
    for memory, enough in ((mapped - 1, False), (mapped + left - 1, False), (mapped + left, True)):
        cold = shown(f"{text}\n(f 3)\n(f 600)", "cold", memory=memory)
        assert ("E-LIMIT-003" in cold[0]) is not enough
        assert shown(f"{text}\n(f 3)\n(f 600)", mode, memory=memory) == cold


@pytest.mark.parametrize("mode", ["cold", "hot", "switched"])
def test_a_call_of_oneself_that_returns_at_once_has_its_depth(mode: str) -> None:
    text = "(defun f (n) (if (< n 1) n (+ 1 (f (- n 1)))))\n(dotimes (i 5) (f i))\n(f {})"
    for limit in (40, 41, 42):
        assert shown(text.format(limit - 1), mode, depth=limit)[0] == str(limit - 1)
        assert "E-LIMIT-002" in shown(text.format(limit), mode, depth=limit)[0]


def test_a_function_that_loops_long_is_hot_when_it_is_called_again() -> None:
    import sexpgpu.lisp.hot.compile as compiler
    from sexpgpu.lisp.session import Session

    made: list[str] = []
    real = compiler.exec_text

    def note(text: str, names: dict[str, object]) -> None:
        made.append(text)
        real(text, names)

    compiler.exec_text = note
    try:
        session = Session()
        module = session.new_module("main")
        text = "(defun f (l) (dolist (x l) x) (mapcar (lambda (x) (* x 2)) l))"
        session.evaluate(text, module)
        for _ in range(3):
            session.evaluate("(length (f (loop for i below 3000 collect i)))", module)
        session.close()
    finally:
        compiler.exec_text = real
    functions = [text for text in made if "def hot(v0)" in text]
    assert any("repeat(None, 256)" in text for text in functions)


TURNS = {
    "dotimes": "(defun f (n) (let ((s 0)) (dotimes (i n s) (setq s (+ s i)))))",
    "dotimes with calls": "(defun g (x) x) (defun f (n) (dotimes (i n) (g i)))",
    "dolist": "(defun f (n) (let ((s 0)) (dolist (x (make-list n :initial-element 1) s) (incf s x))))",
    "do": "(defun f (n) (do ((i 0 (+ i 1))) ((= i n) i)))",
    "loop": "(defun f (n) (loop for i below n collect i))",
    "loop while": "(defun f (n) (let ((i 0)) (loop while (< i n) do (incf i))))",
    "tagbody": "(defun f (n) (let ((i 0)) (tagbody a (incf i) (if (< i n) (go a))) i))",
    "mapcar": "(defun f (n) (mapcar (lambda (x) (list x)) (make-list n)))",
    "mapcar with calls": "(defun g (x) x) (defun f (n) (mapcar (lambda (x) (g x)) (make-list n)))",
    "mapc": "(defun f (n) (let ((s 0)) (mapc (lambda (x) (incf s)) (make-list n)) s))",
    "remove-if": "(defun f (n) (remove-if (lambda (x) (consp x)) (make-list n)))",
    "find-if": "(defun f (n) (find-if (lambda (x) (consp x)) (make-list n)))",
    "every": "(defun f (n) (every (lambda (x) (null x)) (make-list n)))",
    "reduce": "(defun f (n) (reduce (lambda (a b) (list b)) (make-list (+ n 1))))",
    "elements": "(defun f (n) (reduce #'+ (remove-if (lambda (x) (consp x)) (mapcar (lambda (x) 1) (loop repeat n collect 1)))))",
    "calls of oneself": "(defun f (n) (if (< n 1) n (f (- n 1))))",
    "calls of each other": "(defun f (n) (if (< n 1) n (g (- n 1)))) (defun g (n) (if (< n 1) n (f (- n 1))))",
    "strings": '(defun f (n) (dotimes (i n) (let ((s (string-upcase "abcdefgh"))) (search "X" s))))',
}


@pytest.mark.parametrize("mode", ["hot", "switched"])
def test_turns_and_calls_take_the_fuel_that_they_took(mode: str) -> None:
    texts = [f"{text} (list (f 0) (f 1) (f 700) (f 30))" for text in TURNS.values()]
    for name, cold, other in zip(TURNS, answers(texts, "cold"), answers(texts, mode), strict=True):
        assert "error" not in cold[0], (name, cold)
        assert other == cold, name


@pytest.mark.parametrize("mode", ["cold", "hot", "switched"])
def test_turns_and_calls_end_where_the_fuel_does(mode: str) -> None:
    for name, text in TURNS.items():
        report = shown(f"{text}\n(f 20)\n(f 3000)", mode, fuel=1500, depth=100_000)[0]
        assert "E-LIMIT-001" in report, name


@pytest.mark.parametrize("mode", ["cold", "hot", "switched"])
def test_calls_of_each_other_have_their_depth(mode: str) -> None:
    text = """(defun ev (n) (if (= n 0) t (not (od (- n 1)))))
      (defun od (n) (if (= n 0) t (not (ev (- n 1)))))
      (dotimes (i 9) (ev i))
      (ev {})"""
    assert shown(text.format(39), mode, depth=40)[0] in ("t", "nil")
    assert "E-LIMIT-002" in shown(text.format(40), mode, depth=40)[0]
