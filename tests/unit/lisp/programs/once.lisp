;;; Writing macros that evaluate once, in order, and capture nothing: the tools made anew.

(defmacro with-names (names &body body)
  `(let ,(loop for n in names collect `(,n (gensym ,(string n)))) ,@body))

(defmacro evaluating-once (names &body body)
  (let ((symbols (loop for nil in names collect (gensym))))
    `(let ,(loop for s in symbols collect `(,s (gensym)))
       `(let (,,@(loop for s in symbols for n in names collect ``(,,s ,,n)))
          ,(let ,(loop for n in names for s in symbols collect `(,n ,s))
             ,@body)))))

(defmacro square (x) (evaluating-once (x) `(* ,x ,x)))
(defmacro between (low x high) (evaluating-once (low x high) `(and (<= ,low ,x) (<= ,x ,high))))

(defvar *trace* '())
(defun noted (x) (push x *trace*) x)

(format t "~a ~a~%" (square (noted 7)) *trace*)
(setf *trace* '())
(format t "~a ~a~%" (between (noted 1) (noted 5) (noted 9)) (reverse *trace*))

(defmacro swap-places (a b)
  (with-names (kept) `(let ((,kept ,a)) (setf ,a ,b ,b ,kept) nil)))
(let ((kept 1) (other 2)) (swap-places kept other) (format t "~a ~a~%" kept other))

(defmacro do-primes ((var low high) &body body)
  (with-names (end)
    `(do ((,var (next-prime ,low) (next-prime (1+ ,var))) (,end ,high))
         ((> ,var ,end))
       ,@body)))
(defun prime-p (n) (and (> n 1) (loop for f from 2 to (isqrt n) never (zerop (mod n f)))))
(defun next-prime (n) (loop for k from n when (prime-p k) return k))
(do-primes (p 0 19) (format t "~a," p))
(let ((end 5)) (do-primes (p end (* 3 end)) (format t "~a;" p)) (terpri))

(defmacro with-collector ((collect) &body body)
  (with-names (items)
    `(let ((,items '()))
       (flet ((,collect (x) (push x ,items) x)) ,@body)
       (nreverse ,items))))
(format t "~a~%" (with-collector (keep) (dotimes (i 5) (when (evenp i) (keep (* i i))))))

(defmacro my-cond (&rest clauses)
  (when clauses
    (destructuring-bind ((test &rest forms) &rest more) clauses
      (if forms
          `(if ,test (progn ,@forms) (my-cond ,@more))
          `(or ,test (my-cond ,@more))))))
(format t "~(~a ~a ~a~)~%" (my-cond ((= 1 2) 'a) ((= 1 1) 'b) (t 'c)) (my-cond (nil 1) (7)) (my-cond))

(defmacro unroll (count var &body body)
  `(progn ,@(loop for i below count append (subst i var body))))
(unroll 3 n (format t "~a;" (expt 2 n)))
(terpri)

(define-modify-macro appendf (&rest lists) append)
(define-modify-macro togglef () not)
(let ((l '(1)) (flag nil) (i 0) (v (vector nil nil)))
  (appendf l '(2) '(3))
  (togglef flag)
  (togglef (aref v (1- (incf i))))
  (format t "~a ~a ~a ~a~%" l flag v i))

(defsetf middle (list) (new) `(setf (nth (floor (length ,list) 2) ,list) ,new))
(defun middle (list) (nth (floor (length list) 2) list))
(let ((l (list 1 2 3))) (incf (middle l) 40) (format t "~a~%" l))

(defmacro nested (x) `(list ,@(loop for i below 2 collect ``(,,x ,,i ,@',(list i x)))))
(format t "~(~s~)~%" (let ((y 5)) (nested y)))

#|
49 (7)
T (1 5 9)
2 1
2,3,5,7,11,13,17,19,5;7;11;13;
(0 4 16)
b 7 nil
1;2;4;
(1 2 3) T #(T NIL) 1
(1 42 3)
((5 0 0 y) (5 1 1 y))
|#
