;;; Forms about hash tables, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(gethash 'a (make-hash-table))
; => nil | nil

(gethash 'a (make-hash-table) 5)
; => 5 | nil

(let ((h (make-hash-table))) (setf (gethash 1 h) 'x) (list (gethash 1 h) (gethash 1.0 h)))
; => (x nil)

(let ((h (make-hash-table :test 'equal))) (setf (gethash "a" h) 1 (gethash '(1 2) h) 2) (list (gethash (copy-seq "a") h) (gethash (list 1 2) h) (gethash "A" h)))
; => (1 2 nil)

(let ((h (make-hash-table :test #'equalp))) (setf (gethash "a" h) 1 (gethash 2 h) 2 (gethash #(1) h) 3) (list (gethash "A" h) (gethash 2.0 h) (gethash (vector 1.0) h)))
; => (1 2 3)

(let ((h (make-hash-table :test 'eq))) (setf (gethash 'x h) 1) (incf (gethash 'x h)) (gethash 'x h))
; => 2 | t

(let ((h (make-hash-table))) (setf (gethash 'x h) 1) (list (remhash 'x h) (remhash 'x h) (hash-table-count h)))
; => (t nil 0)

(let ((h (make-hash-table))) (dotimes (i 5) (setf (gethash i h) (* i i))) (let ((s 0)) (maphash (lambda (k v) (incf s (+ k v))) h) s))
; => 40

(let ((h (make-hash-table))) (dotimes (i 5) (setf (gethash i h) i)) (maphash (lambda (k v) (if (evenp v) (remhash k h))) h) (hash-table-count h))
; => 2

(let ((h (make-hash-table))) (setf (gethash 1 h) 2) (clrhash h) (hash-table-count h))
; => 0

(hash-table-p (make-hash-table))
; => t

(hash-table-p 1)
; => nil

(hash-table-test (make-hash-table :test 'equalp))
; => equalp

(hash-table-test (make-hash-table))
; => eql

(gethash 1 2)
; => error type-error

(make-hash-table :test 'foo)
; =! error program-error

(let ((h (make-hash-table)) (r nil)) (setf (gethash 1 h) 'a (gethash 2 h) 'b) (with-hash-table-iterator (next h) (loop (multiple-value-bind (more k v) (next) (unless more (return)) (push (list k v) r)))) (reverse r))
; => ((1 a) (2 b))

(let ((h (make-hash-table))) (setf (gethash 1 h) 'a (gethash 2 h) 'b) (loop for k being the hash-keys of h using (hash-value v) collect (cons k v)))
; => ((1 . a) (2 . b))

(let ((h (make-hash-table))) (setf (gethash 1 h) 'a (gethash 2 h) 'b) (loop for v being each hash-value in h collect v))
; => (a b)

(= (sxhash "abc") (sxhash (copy-seq "abc")))
; => t

(= (sxhash '(1 "a")) (sxhash (list 1 "a")))
; => t

(let ((h (make-hash-table :test 'equal))) (setf (gethash 1 h) 'i (gethash 1.0 h) 'f (gethash 1/2 h) 'r) (list (gethash 1 h) (gethash 1.0 h) (gethash 1/2 h) (hash-table-count h)))
; => (i f r 3)

(let ((a (make-hash-table)) (b (make-hash-table))) (setf (gethash 1 a) "x" (gethash 1 b) "X") (list (equal a b) (equalp a b)))
; => (nil t)
