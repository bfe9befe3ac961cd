;;; Searching: dynamic variables, catch and throw, lazy lists, memory, permutations.

(defvar *board* nil)
(defvar *tried* 0)

(defun safe-p (row column)
  (loop for (r . c) in *board*
        never (or (= c column) (= (abs (- r row)) (abs (- c column))))))

(defun place (row n found)
  (if (= row n)
      (funcall found (mapcar #'cdr (reverse *board*)))
      (dotimes (column n)
        (incf *tried*)
        (when (safe-p row column)
          (let ((*board* (acons row column *board*)))
            (place (1+ row) n found))))))

(defun queens (n) (catch 'found (place 0 n (lambda (b) (throw 'found b)))))
(defun count-queens (n) (let ((count 0)) (place 0 n (lambda (b) (declare (ignore b)) (incf count))) count))

(format t "~a ~a ~a ~a~%" (queens 6) *board* (let ((*tried* 0)) (queens 4) *tried*) (count-queens 5))

;; Lazy lists.
(defmacro delay (form) `(let ((known nil) (value nil))
                          (lambda () (unless known (setf value ,form known t)) value)))
(defun force (promise) (funcall promise))
(defmacro lazy-cons (head tail) `(cons ,head (delay ,tail)))
(defun lazy-cdr (l) (force (cdr l)))
(defun take (n l) (loop repeat n while l collect (car l) do (setf l (lazy-cdr l))))
(defun integers (n) (lazy-cons n (integers (1+ n))))
(defun lazy-filter (test l)
  (loop until (funcall test (car l)) do (setf l (lazy-cdr l)))
  (lazy-cons (car l) (lazy-filter test (lazy-cdr l))))
(defun sieve (l)
  (let ((p (car l)))
    (lazy-cons p (sieve (lazy-filter (lambda (n) (plusp (mod n p))) (lazy-cdr l))))))
(format t "~a~%" (take 12 (sieve (integers 2))))

;; Memory.
(defun remembering (function)
  (let ((table (make-hash-table :test #'equal)))
    (lambda (&rest arguments)
      (multiple-value-bind (value there) (gethash arguments table)
        (if there value (setf (gethash arguments table) (apply function arguments)))))))
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(setf (symbol-function 'fib) (remembering #'fib))
(format t "~a ~a~%" (fib 80) (fib 100))

;; Permutations, subsets, sorting.
(defun permutations (list)
  (if (null list)
      (list nil)
      (mapcan (lambda (x) (mapcar (lambda (p) (cons x p)) (permutations (remove x list :count 1)))) list)))
(format t "~a ~a~%" (permutations '(1 2 3)) (length (permutations '(a b c d e))))
(defun subsets (list)
  (reduce (lambda (sets x) (append sets (mapcar (lambda (s) (append s (list x))) sets))) list
          :initial-value (list nil)))
(format t "~(~a~)~%" (subsets '(a b c)))
(defun quicksort (list)
  (unless (null list)
    (destructuring-bind (pivot . others) list
      (append (quicksort (remove-if-not (lambda (x) (< x pivot)) others)) (list pivot)
              (quicksort (remove-if (lambda (x) (< x pivot)) others))))))
(format t "~a ~a~%" (quicksort '(3 1 4 1 5 9 2 6)) (stable-sort (list "bb" "a" "cc" "d") #'< :key #'length))

;; Towers, breadth first search, greatest common divisor with prog.
(defun towers (n from to via)
  (if (zerop n) 0 (+ (towers (1- n) from via to) 1 (towers (1- n) via to from))))
(defparameter *net* '((a b c) (b d) (c d e) (d f) (e f) (f)))
(defun path (from to)
  (do ((queue (list (list from)))) ((null queue) nil)
    (let* ((path (pop queue)) (node (first path)))
      (when (eq node to) (return (reverse path)))
      (setf queue (append queue (loop for next in (rest (assoc node *net*))
                                      unless (member next path) collect (cons next path)))))))
(defun divisor (a b) (prog () top (when (zerop b) (return a)) (psetq a b b (mod a b)) (go top)))
(format t "~a ~(~a~) ~a~%" (towers 7 'a 'b 'c) (path 'a 'f) (divisor 84 36))
(let ((x 1)) (declare (special x)) (flet ((see () (symbol-value 'x))) (progv '(x) '(2) (format t "~a ~a~%" x (see)))))
(format t "~a~%" (unwind-protect (catch 'out (unwind-protect (throw 'out 1) (format t "inner "))) (format t "outer ")))

#|
(1 3 5 0 2 4) NIL 26 10
(2 3 5 7 11 13 17 19 23 29 31 37)
23416728348467685 354224848179261915075
((1 2 3) (1 3 2) (2 1 3) (2 3 1) (3 1 2) (3 2 1)) 120
(nil (a) (b) (a b) (c) (a c) (b c) (a b c))
(1 1 2 3 4 5 6 9) (a d bb cc)
127 (a b d f) 12
2 2
inner outer 1
|#
