(let ((c (make-condition 'simple-error :format-control "a")))
  (list (simple-condition-format-control c) (simple-condition-format-arguments c)))
; => ("a" nil)

(restart-case (princ-to-string (find-restart 'skip)) (skip () :report "Skip it." 1))
; => "Skip it."

(restart-case (princ-to-string (find-restart 'skip))
  (skip () :report (lambda (s) (format s "Skip ~a" 3)) 1))
; => "Skip 3"

(restart-case (princ-to-string (find-restart 'skip)) (skip () 1))
; => "skip"

(with-simple-restart (skip "Skip ~a" (+ 1 2)) (princ-to-string (find-restart 'skip)))
; => "Skip 3"

(restart-bind ((skip #'list :report-function (lambda (s) (princ "skips" s))))
  (princ-to-string (find-restart 'skip)))
; => "skips"

(handler-bind ((error (lambda (c) (throw 'out (princ-to-string (find-restart 'continue c))))))
  (catch 'out (cerror "Take ~a" "no ~a" 4)))
; => "Take 4"

(restart-case (list (typep (find-restart 'a) 'restart) (typep 'a 'restart)) (a () 1))
; => (t nil)

(handler-bind ((error (lambda (c) (invoke-restart (find-restart 'use c)))))
  (handler-bind ((error (lambda (c) (declare (ignore c)) (error "other"))))
    (restart-case (restart-case (error "one") (use () 'inner)) (use () 'outer))))
; => outer

(handler-bind ((error (lambda (c) (invoke-restart (find-restart 'use c)))))
  (macrolet ((fail (text) `(error ,text)))
    (restart-case (restart-case (fail "one") (use () 'inner)) (use () 'outer))))
; => inner

(let ((other (make-condition 'error)))
  (handler-bind ((error (lambda (c) (throw 'out (list (not (find-restart 'use c))
                                                      (not (find-restart 'use other))
                                                      (not (find-restart 'use)))))))
    (catch 'out (restart-case (error "one") (use () 'inner)))))
; => (nil t nil)

(let ((c (make-condition 'error)) (other (make-condition 'error)))
  (restart-case
    (with-condition-restarts c (list (find-restart 'use))
      (list (not (find-restart 'use c)) (not (find-restart 'use other))))
    (use () 1)))
; => (nil t)

(handler-bind ((warning (lambda (c) (muffle-warning c)))) (restart-case (warn "w") (muffle-warning () 2)))
; => nil

(progn
  (define-condition two-slots () ((a :initarg :a :initarg :both :initform 1 :reader slot-a)
                                  (b :initarg :b :initarg :both :initform 2 :reader slot-b)))
  (let ((c (make-condition 'two-slots :a 5 :both 6))) (list (slot-a c) (slot-b c))))
; => (5 6)

(progn
  (define-condition first-kind () ((x :initarg :x :reader shared-x)))
  (define-condition second-kind () ((y :initarg :y :reader shared-x)))
  (list (shared-x (make-condition 'first-kind :x 1)) (shared-x (make-condition 'second-kind :y 2))))
; => (1 2)

(progn (define-condition third-kind () ((x :initarg :x :reader third-x)))
       (third-x (make-condition 'error)))
; =! error type-error

(let ((x :dynamic)) (declare (special x))
  (let ((x :lexical))
    (handler-case nil (:no-error (z &aux (y x)) (declare (special x) (ignore z)) y))))
; => :lexical

(handler-case (signal 'simple-condition :format-control "a" :format-arguments '(1))
  (simple-condition (c) (simple-condition-format-arguments c)))
; => (1)

(funcall (macro-function 'when))
; => error program-error

(funcall (macro-function 'when) '(when a b))
; => error program-error

(handler-case (error 'type-error :datum 1 :expected-type 'cons)
  (type-error (c) (list (type-error-datum c) (type-error-expected-type c))))
; => (1 cons)

(proclaim '(optimize . speed))
; => error type-error

(proclaim '(type integer . x))
; => error type-error

(get-properties '(a 1 b 2 . c) '(z))
; => error type-error

(restart-case (invoke-restart 'a 1) (a (x &aux (y (+ x 1))) (list x y)))
; => (1 2)
