;;; A pattern matcher with segment variables, and a talker made of rules.

(defconstant +fail+ nil "No match.")
(defvar *no-bindings* '((t . t)) "A match that binds nothing.")

(defun variable-p (x)
  (and (symbolp x) (plusp (length (symbol-name x))) (char= (char (symbol-name x) 0) #\?)))

(defun segment-p (pattern)
  (and (consp pattern) (consp (first pattern)) (eq (first (first pattern)) '?*)))

(defun bind (var value bindings)
  (let ((old (assoc var bindings)))
    (cond ((null old) (acons var value (if (eq bindings *no-bindings*) nil bindings)))
          ((equal (cdr old) value) bindings)
          (t +fail+))))

(defun match (pattern input &optional (bindings *no-bindings*))
  (cond ((eq bindings +fail+) +fail+)
        ((variable-p pattern) (bind pattern input bindings))
        ((eql pattern input) bindings)
        ((segment-p pattern) (match-segment pattern input bindings))
        ((and (consp pattern) (consp input))
         (match (rest pattern) (rest input) (match (first pattern) (first input) bindings)))
        (t +fail+)))

(defun match-segment (pattern input bindings &optional (start 0))
  (let ((var (second (first pattern)))
        (rest (rest pattern)))
    (if (null rest)
        (bind var input bindings)
        (let ((at (if (or (variable-p (first rest)) (consp (first rest)))
                      (and (<= start (length input)) start)
                      (position (first rest) input :start (min start (length input)) :test #'equal))))
          (if (null at)
              +fail+
              (let ((found (match rest (subseq input at)
                                  (bind var (subseq input 0 at) bindings))))
                (if (eq found +fail+)
                    (match-segment pattern input bindings (1+ at))
                    found)))))))

(defparameter *rules*
  '((((?* ?x) i want (?* ?y)) (what would it mean if you got ?y) (why do you want ?y))
    (((?* ?x) i am (?* ?y)) (how long have you been ?y))
    (((?* ?x)) (go on))))

(defparameter *swap* '((i . you) (you . i) (my . your) (am . are)))

(defun flatten (tree)
  (mapcan (lambda (x) (if (listp x) (copy-list x) (list x))) tree))

(defun answer (input)
  (some (lambda (rule)
          (let ((found (match (first rule) input)))
            (unless (eq found +fail+)
              (flatten (sublis (sublis *swap* found) (second rule))))))
        *rules*))

(defun show (x) (format t "~(~{~a~^ ~}~)~%" x))

(show (answer '(today i want my own computer)))
(show (answer '(i am tired of you)))
(show (answer '(nothing)))
(format t "~(~s~)~%" (match '(?x (?* ?all) ?x) '(1 2 3 1)))
(format t "~(~s~)~%" (match '(?x (?* ?all) ?x) '(1 2 3 4)))
(format t "~(~s~)~%" (match '((?* ?a) b (?* ?c)) '(1 b 2 b 3)))

#|
what would it mean if you got your own computer
how long have you been tired of i
go on
((?all 2 3) (?x . 1))
nil
((?c 2 b 3) (?a 1))
|#
