;;; Queues and counters as closures, message passing, and a small scheduler.

(defun make-queue ()
  "A function that takes :put, :get, :size and :list."
  (let* ((head (list nil)) (tail head) (count 0))
    (lambda (message &rest arguments)
      (ecase message
        (:put (dolist (item arguments count)
                (setf (cdr tail) (list item)
                      tail (cdr tail))
                (incf count)))
        (:get (when (null (cdr head)) (error "the queue is empty"))
         (decf count)
         (prog1 (pop (cdr head))
           (when (null (cdr head)) (setf tail head))))
        (:size count)
        (:list (copy-list (cdr head)))))))

(defun send (object message &rest arguments) (apply object message arguments))

(let ((q (make-queue)))
  (send q :put 1 2 3)
  (send q :put 4)
  (format t "~a ~a ~a~%" (send q :get) (send q :size) (send q :list))
  (loop repeat 3 do (send q :get))
  (format t "~a~%" (handler-case (send q :get) (error (e) (format nil "~a" e))))
  (send q :put 'again)
  (format t "~(~a~) ~a~%" (send q :list) (handler-case (send q :drop) (type-error () "no such message"))))

(defun counter (&key (start 0) (step 1))
  (let ((n start))
    (values (lambda () (prog1 n (incf n step)))
            (lambda (&optional (to start)) (setf n to)))))

(multiple-value-bind (next reset) (counter :start 10 :step 5)
  (format t "~{~a ~}" (loop repeat 3 collect (funcall next)))
  (funcall reset)
  (format t "~a " (funcall next))
  (funcall reset 100)
  (format t "~a~%" (funcall next)))

;; Tasks that give each other the turn: each is a closure that gives its successor, or nil.
(defvar *log* '())

(defun task (name steps)
  (labels ((at (step)
             (lambda ()
               (push (cons name step) *log*)
               (when (< step steps) (at (1+ step))))))
    (at 1)))

(defun run (&rest tasks)
  (let ((q (make-queue)))
    (apply q :put tasks)
    (loop until (zerop (send q :size))
          for next = (funcall (send q :get))
          when next do (send q :put next))))

(run (task :a 2) (task :b 3) (task :c 1))
(format t "~{~(~s~)~^ ~}~%" (reverse *log*))

(defun compose-all (&rest functions)
  (reduce (lambda (f g) (lambda (&rest args) (funcall f (apply g args)))) functions
          :initial-value #'identity))

(format t "~a ~a~%" (funcall (compose-all #'1+ #'abs #'*) 3 -4) (funcall (compose-all) 7))

#|
1 3 (2 3 4)
the queue is empty
(again) no such message
10 15 20 10 100
(:a . 1) (:b . 1) (:c . 1) (:a . 2) (:b . 2) (:b . 3)
13 7
|#
