;;; Matrices on vectors, exactly: product, power, determinant, inverse.

(defstruct (matrix (:constructor %make-matrix (rows columns cells)))
  rows columns cells)

(defun make-matrix (rows columns &key (initial-element 0) initial-contents)
  (%make-matrix rows columns
                (if initial-contents
                    (coerce (apply #'append initial-contents) 'vector)
                    (make-array (* rows columns) :initial-element initial-element))))

(declaim (inline mref))
(defun mref (matrix i j)
  (aref (matrix-cells matrix) (+ (* i (matrix-columns matrix)) j)))

(defun (setf mref) (value matrix i j)
  (setf (aref (matrix-cells matrix) (+ (* i (matrix-columns matrix)) j)) value))

(defmacro do-cells ((i j matrix) &body body)
  (let ((m (gensym "M")))
    `(let ((,m ,matrix))
       (dotimes (,i (matrix-rows ,m) ,m)
         (dotimes (,j (matrix-columns ,m))
           ,@body)))))

(defun identity-matrix (n)
  (let ((m (make-matrix n n)))
    (dotimes (i n m) (setf (mref m i i) 1))))

(defun multiply (a b)
  (assert (= (matrix-columns a) (matrix-rows b)))
  (let ((c (make-matrix (matrix-rows a) (matrix-columns b))))
    (do-cells (i j c)
      (setf (mref c i j)
            (loop for k below (matrix-columns a) sum (* (mref a i k) (mref b k j)))))))

(defun power (m n)
  (do ((result (identity-matrix (matrix-rows m)))
       (base m (multiply base base))
       (n n (ash n -1)))
      ((zerop n) result)
    (when (oddp n) (setf result (multiply result base)))))

(defun transpose (m)
  (let ((c (make-matrix (matrix-columns m) (matrix-rows m))))
    (do-cells (i j c) (setf (mref c i j) (mref m j i)))))

(defun rows (m)
  (loop for i below (matrix-rows m)
        collect (loop for j below (matrix-columns m) collect (mref m i j))))

(defun invert (m)
  "The inverse of M by Gauss and Jordan, and its determinant; nil when there is none."
  (let* ((n (matrix-rows m)) (determinant 1)
         (a (make-matrix n n :initial-contents (rows m)))
         (b (identity-matrix n)))
    (dotimes (column n (values b determinant))
      (let ((pivot (loop for row from column below n
                         unless (zerop (mref a row column)) return row)))
        (unless pivot (return (values nil 0)))
        (unless (= pivot column)
          (setf determinant (- determinant))
          (dotimes (j n)
            (rotatef (mref a pivot j) (mref a column j))
            (rotatef (mref b pivot j) (mref b column j))))
        (let ((scale (mref a column column)))
          (setf determinant (* determinant scale))
          (dotimes (j n)
            (setf (mref a column j) (/ (mref a column j) scale)
                  (mref b column j) (/ (mref b column j) scale))))
        (dotimes (row n)
          (unless (= row column)
            (let ((factor (mref a row column)))
              (dotimes (j n)
                (decf (mref a row j) (* factor (mref a column j)))
                (decf (mref b row j) (* factor (mref b column j)))))))))))

(let ((m (make-matrix 3 3 :initial-contents '((2 1 0) (1 0 1) (0 3 1)))))
  (format t "~a~%~a~%" (rows m) (rows (multiply m (transpose m))))
  (multiple-value-bind (inverse determinant) (invert m)
    (format t "~a ~a~%~a~%" determinant (rows inverse) (rows (multiply m inverse)))))
(format t "~a~%" (rows (power (make-matrix 2 2 :initial-contents '((1 1) (1 0))) 90)))
(format t "~a~%" (multiple-value-list (invert (make-matrix 2 2 :initial-contents '((1 2) (2 4))))))
(format t "~a~%" (handler-case (multiply (make-matrix 2 3) (make-matrix 2 2)) (error () "do not fit")))

#|
((2 1 0) (1 0 1) (0 3 1))
((5 2 3) (2 2 1) (3 1 10))
-7 ((3/7 1/7 -1/7) (1/7 -2/7 2/7) (-3/7 6/7 1/7))
((1 0 0) (0 1 0) (0 0 1))
((4660046610375530309 2880067194370816120) (2880067194370816120 1779979416004714189))
(NIL 0)
do not fit
|#
