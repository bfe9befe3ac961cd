;;; Text to tokens to a tree to a value: recursive descent with labels, and a stack machine.

(define-condition syntax-error (error)
  ((at :initarg :at :reader error-at) (found :initarg :found :reader error-found))
  (:report (lambda (c s) (format s "at ~d: unexpected ~:[end~;~:*~a~]" (error-at c) (error-found c)))))

(defun tokens (text)
  (let ((at 0) (found '()))
    (loop
      (let ((start (position-if-not (lambda (c) (member c '(#\Space #\Tab))) text :start at)))
        (when (null start) (return (nreverse found)))
        (let ((c (char text start)))
          (cond ((digit-char-p c)
                 (multiple-value-bind (n end) (parse-integer text :start start :junk-allowed t)
                   (push (cons n start) found)
                   (setf at end)))
                ((alpha-char-p c)
                 (let ((end (or (position-if-not #'alphanumericp text :start start) (length text))))
                   (push (cons (string-downcase (subseq text start end)) start) found)
                   (setf at end)))
                ((find c "+-*/^()=")
                 (push (cons c start) found)
                 (setf at (1+ start)))
                (t (error 'syntax-error :at start :found c))))))))

(defun parse (text)
  (let ((left (tokens text)))
    (labels ((peek () (car (first left)))
             (next () (car (pop left)))
             (fail () (error 'syntax-error :at (if left (cdr (first left)) (length text)) :found (peek)))
             (expect (c) (if (eql (peek) c) (next) (fail)))
             (binary (operators operand)
               (do ((tree (funcall operand) (list (operator (next)) tree (funcall operand))))
                   ((not (member (peek) operators)) tree)))
             (operator (c) (ecase c (#\+ '+) (#\- '-) (#\* '*) (#\/ '/)))
             (sum () (binary '(#\+ #\-) #'product))
             (product () (binary '(#\* #\/) #'unary))
             (unary () (case (peek) (#\- (next) (list '- (unary))) (t (power))))
             (power () (let ((base (atom-of)))
                         (if (eql (peek) #\^) (progn (next) (list 'expt base (unary))) base)))
             (atom-of () (cond ((integerp (peek)) (next))
                               ((stringp (peek))
                                (let ((name (next)))
                                  (if (eql (peek) #\=) (progn (next) (list 'setq name (sum))) name)))
                               ((eql (peek) #\() (next) (prog1 (sum) (expect #\))))
                               (t (fail)))))
      (prog1 (sum) (when left (fail))))))

(defvar *variables* (make-hash-table :test #'equal))

(defun value (tree)
  (cond ((numberp tree) tree)
        ((stringp tree) (or (gethash tree *variables*) (error "no value: ~a" tree)))
        ((eq (first tree) 'setq) (setf (gethash (second tree) *variables*) (value (third tree))))
        (t (apply (first tree) (mapcar #'value (rest tree))))))

(defun compile-tree (tree)
  (if (atom tree)
      (list (list :push tree))
      (append (mapcan #'compile-tree (copy-list (rest tree)))
              (list (list :call (first tree) (length (rest tree)))))))

(defun run (program)
  (let ((stack '()) (pc 0))
    (tagbody
     next
       (when (>= pc (length program)) (go done))
       (destructuring-bind (code thing &optional (count 0)) (nth pc program)
         (incf pc)
         (case code
           (:push (push thing stack))
           (:call (let ((arguments '()))
                    (dotimes (i count) (push (pop stack) arguments))
                    (push (apply thing arguments) stack)))))
       (go next)
     done)
    (values (first stack) pc)))

(dolist (text '("1 + 2 * 3" "(1 + 2) * 3" "2 ^ 3 ^ 2" "-2 ^ 2" "7 / 2 - 1/2" "x = 5 * 2" "x * x" "y"
                "1 +" "2 $ 3" "(1" "1 2" "10 / (5 - 5)"))
  (format t "~16a ~a~%" text
          (handler-case (let* ((tree (parse text)) (v (value tree)))
                          (format nil "~a  ~(~s~)" v tree))
            (syntax-error (e) (format nil "~a" e))
            (division-by-zero () "division by zero")
            (simple-error (e) (format nil "~a" e)))))
(format t "~a~%" (multiple-value-list (run (compile-tree (parse "1 + 2 * (3 - 4) ^ 5")))))

#|
1 + 2 * 3        7  (+ 1 (* 2 3))
(1 + 2) * 3      9  (* (+ 1 2) 3)
2 ^ 3 ^ 2        512  (expt 2 (expt 3 2))
-2 ^ 2           -4  (- (expt 2 2))
7 / 2 - 1/2      3  (- (/ 7 2) (/ 1 2))
x = 5 * 2        10  (setq "x" (* 5 2))
x * x            100  (* "x" "x")
y                no value: y
1 +              at 3: unexpected end
2 $ 3            at 2: unexpected $
(1               at 2: unexpected end
1 2              at 2: unexpected 2
10 / (5 - 5)     division by zero
(-1 9)
|#
