;;; Structures instead of classes: inclusion, dispatch tables, printing.

(defstruct (shape (:conc-name shape-)) (name "thing" :type string) (tags nil :type list))
(defstruct (circle (:include shape (name "circle"))) (radius 1))
(defstruct (rectangle (:include shape (name "rectangle")) (:copier duplicate)) (width 1) (height 1))
(defstruct (square (:include rectangle (name "square"))
                   (:constructor make-square (side &key tags &aux (width side) (height side)))))

(defvar *methods* (make-hash-table :test #'equal))

(defparameter *parents* '((square . rectangle) (rectangle . shape) (circle . shape)))

(defun find-method-of (name type)
  (loop for kind = type then (cdr (assoc kind *parents*))
        while kind
        do (let ((found (gethash (list name kind) *methods*)))
             (when found (return found)))
        finally (error "no ~(~a~) for ~(~a~)" name type)))

(defun define (name type function) (setf (gethash (list name type) *methods*) function))

(defun area (shape)
  (etypecase shape
    (circle (* 355/113 (expt (circle-radius shape) 2)))
    (rectangle (* (rectangle-width shape) (rectangle-height shape)))))

(define 'describe-it 'shape (lambda (s) (format nil "a ~a" (shape-name s))))
(define 'describe-it 'rectangle
  (lambda (r) (format nil "a ~a of ~a by ~a" (shape-name r) (rectangle-width r) (rectangle-height r))))
(defun describe-it (shape) (funcall (find-method-of 'describe-it (type-of shape)) shape))

(let ((all (list (make-circle :radius 2) (make-rectangle :width 2 :height 3) (make-square 4 :tags '(:red)))))
  (dolist (s all) (format t "~a, area ~a~%" (describe-it s) (area s)))
  (format t "~a~%" (mapcar (lambda (s) (list (shape-p s) (rectangle-p s) (square-p s))) all))
  (format t "~a~%" (loop for s in all sum (area s)))
  (let ((copy (duplicate (second all))))
    (setf (rectangle-width copy) 10)
    (incf (rectangle-height copy))
    (format t "~a ~a ~a~%" (area copy) (area (second all)) (equalp copy (duplicate copy))))
  (format t "~a~%" (mapcar #'shape-name (sort (copy-list all) #'> :key #'area)))
  (format t "~(~s~)~%" (third all)))

(defstruct (point (:type list) :named) x (y 0))
(defstruct (pair (:constructor pair (left right)) (:predicate nil)
                 (:print-function (lambda (p stream depth)
                                    (declare (ignore depth))
                                    (format stream "<~a|~a>" (pair-left p) (pair-right p)))))
  (left nil :read-only t) right)

(let ((p (make-point :x 3)) (q (pair 1 (pair 2 nil))))
  (format t "~(~a~) ~a ~a~%" p (point-y p) (point-p p))
  (setf (pair-right (pair-right q)) "end")
  (format t "~a ~s~%" q (list q)))

(handler-case (circle-radius (make-rectangle))
  (type-error (c) (format t "~(~a~) ~a~%" (type-error-expected-type c) (rectangle-p (type-error-datum c)))))
(handler-case (make-circle :radus 1) (error () (format t "no such slot~%")))
(handler-case (find-method-of 'volume 'circle) (error (e) (format t "~a~%" e)))

(deftype positive (&optional (kind 'real)) `(and ,kind (satisfies plusp)))
(format t "~a~%" (mapcar (lambda (x) (typep x '(positive integer))) '(1 -1 1.5 a)))
(defun kind (x)
  (typecase x
    ((or null cons) :list)
    ((integer 0 9) :digit)
    (number :number)
    ((member a e i o u) :vowel)
    (symbol :symbol)
    (string :string)
    (t :other)))
(format t "~(~a~)~%" (mapcar #'kind (list nil '(1) 7 -7 1.5 'e 'x "s" #\c)))

#|
a circle, area 1420/113
a rectangle of 2 by 3, area 6
a square of 4 by 4, area 16
((T NIL NIL) (T T NIL) (T T T))
3906/113
40 6 T
(square circle rectangle)
#s(square :name "square" :tags (:red) :width 4 :height 4)
(point 3 0) 0 T
<1|<2|end>> (<1|<2|end>>)
circle T
no such slot
no volume for circle
(T NIL NIL NIL)
(list list digit number number vowel symbol string other)
|#
