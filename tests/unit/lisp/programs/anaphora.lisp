;;; Anaphoric macros, and macros that make macros and names.

(defmacro aif (test then &optional else)
  `(let ((it ,test)) (if it ,then ,else)))

(defmacro awhen (test &body body) `(aif ,test (progn ,@body)))

(defmacro aand (&rest forms)
  (cond ((null forms) t)
        ((null (cdr forms)) (car forms))
        (t `(aif ,(car forms) (aand ,@(cdr forms))))))

(defmacro acond (&rest clauses)
  (if (null clauses)
      nil
      (let ((value (gensym)) (clause (car clauses)))
        `(let ((,value ,(car clause)))
           (if ,value
               (let ((it ,value)) (declare (ignorable it)) ,@(cdr clause))
               (acond ,@(cdr clauses)))))))

(defmacro alambda (parameters &body body)
  `(labels ((self ,parameters ,@body)) #'self))

(defmacro nif (number positive zero negative)
  (let ((n (gensym)))
    `(let ((,n ,number))
       (cond ((plusp ,n) ,positive) ((zerop ,n) ,zero) (t ,negative)))))

(defmacro for ((var from to) &body body)
  (let ((end (gensym "END")))
    `(do ((,var ,from (1+ ,var)) (,end ,to)) ((> ,var ,end)) ,@body)))

(defmacro in (object &rest choices)
  (let ((x (gensym)))
    `(let ((,x ,object)) (or ,@(mapcar (lambda (c) `(eql ,x ,c)) choices)))))

(format t "~a ~a~%" (aif (assoc 'b '((a . 1) (b . 2))) (* 10 (cdr it)) 'none)
        (awhen (member 3 '(1 2 3 4)) (length it)))
(format t "~a~%" (aand '(1 (2 3)) (cadr it) (car it) (1+ it)))
(format t "~a~%" (acond ((find 9 '(1 2)) (list :found it)) ((position 2 '(1 2)) (list :at it)) (t 0)))
(format t "~a~%" (mapcar (alambda (n) (if (zerop n) 1 (* n (self (1- n))))) '(0 1 5 20)))
(format t "~(~a~)~%" (mapcar (lambda (x) (nif x 'p 'z 'n)) '(5 0 -5)))
(for (i 1 3) (format t "~a " (* i i)))
(format t "~a ~a~%" (in 3 1 2 3) (in 4 1 2 3))

;; A macro that defines macros.
(defmacro abbreviate (short long)
  `(defmacro ,short (&rest arguments) `(,',long ,@arguments)))

(abbreviate mvb multiple-value-bind)
(abbreviate dbind destructuring-bind)
(format t "~a~%" (mvb (q r) (floor 17 5) (dbind (a &optional (b 9)) (list q) (list a b r))))

;; Names made of names: accessors of a plist.
(defmacro define-fields (prefix &rest fields)
  `(progn
     ,@(loop for field in fields
             for name = (intern (format nil "~a-~a" prefix field))
             collect `(defun ,name (plist) (getf plist ,(intern (symbol-name field) :keyword)))
             collect `(defun (setf ,name) (new plist)
                        (setf (getf plist ,(intern (symbol-name field) :keyword)) new)
                        plist))))

(define-fields point x y)
(let ((p (list :x 1 :y 2)))
  (setf (point-x p) 10)
  (format t "~a ~a~%" (point-x p) (point-y p)))

;; macrolet, symbol-macrolet, and a macro that counts its own expansions.
(defvar *expanded* 0)
(defmacro counted (form) (incf *expanded*) form)
(defun twice () (counted (+ 1 1)))
(format t "~a ~a ~a~%" (twice) (twice) *expanded*)
(let ((cell (list 1 2)))
  (symbol-macrolet ((head (first cell)) (next (second cell)))
    (macrolet ((swap (a b) `(rotatef ,a ,b)))
      (swap head next)
      (incf head 10)
      (format t "~a~%" cell))))
(format t "~(~s~)~%" (macroexpand-1 '(awhen x y z)))
(format t "~a~%" (let ((list '(3 1 2))) (sort (copy-list list) #'<)))

#|
20 2
3
(AT 1)
(1 1 120 2432902008176640000)
(p z n)
1 4 9 T NIL
(3 9 2)
10 2
2 2 1
(12 1)
(aif x (progn y z))
(1 2 3)
|#
