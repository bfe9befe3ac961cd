;;; Accounts, with conditions and restarts.

(defstruct (account (:constructor open-account (owner &optional (balance 0))))
  owner
  (balance 0 :type integer)
  (history '()))

(define-condition bank-error (error)
  ((account :initarg :account :reader bank-error-account)))

(define-condition insufficient-funds (bank-error)
  ((needed :initarg :needed :reader needed)
   (available :initarg :available :reader available))
  (:report (lambda (condition stream)
             (format stream "~a has ~d, ~d needed"
                     (account-owner (bank-error-account condition))
                     (available condition) (needed condition)))))

(define-condition large-transfer (warning)
  ((amount :initarg :amount :reader amount))
  (:report (lambda (c s) (format s "a transfer of ~d" (amount c)))))

(defun note (account what)
  (push what (account-history account)))

(defun withdraw (account amount)
  (check-type amount (integer 1))
  (restart-case
      (progn
        (when (> amount (account-balance account))
          (error 'insufficient-funds :account account :needed amount
                                     :available (account-balance account)))
        (decf (account-balance account) amount)
        (note account (list :withdraw amount))
        amount)
    (use-value (other)
      :report "Withdraw another amount."
      (withdraw account other))
    (skip ()
      :report "Withdraw nothing."
      0)))

(defun deposit (account amount)
  (incf (account-balance account) amount)
  (note account (list :deposit amount))
  amount)

(defun transfer (from to amount)
  (when (> amount 1000) (warn 'large-transfer :amount amount))
  (let ((done nil) (taken 0))
    (unwind-protect
         (progn
           (setf taken (withdraw from amount))
           (when (plusp taken) (deposit to taken))
           (setf done t)
           taken)
      (unless done (note from (list :failed amount))))))

(defun show (&rest accounts)
  (format t "~{~a~^, ~}~%"
          (loop for a in accounts collect (format nil "~a ~d" (account-owner a) (account-balance a)))))

(let ((ann (open-account "ann" 100)) (bob (open-account "bob")))
  (transfer ann bob 30)
  (show ann bob)
  (handler-case (transfer ann bob 500)
    (insufficient-funds (c) (format t "~a~%" c)))
  (handler-bind ((insufficient-funds
                   (lambda (c) (invoke-restart 'use-value (available c)))))
    (format t "moved ~d~%" (transfer ann bob 500)))
  (show ann bob)
  (handler-bind ((bank-error (lambda (c) (declare (ignore c)) (invoke-restart 'skip))))
    (format t "moved ~d~%" (transfer ann bob 1)))
  (let ((seen '()))
    (handler-bind ((large-transfer (lambda (w)
                                     (push (amount w) seen)
                                     (muffle-warning w))))
      (ignore-errors (transfer bob ann 2000)))
    (format t "warned of ~a~%" seen))
  (handler-case (withdraw bob -5)
    (type-error (c) (format t "~a is no amount~%" (type-error-datum c))))
  (format t "~(~s~)~%" (reverse (account-history ann)))
  (multiple-value-bind (value condition) (ignore-errors (withdraw ann 1))
    (format t "~a ~(~a~)~%" value (type-of condition)))
  (format t "~a~%" (with-simple-restart (give-up "Give up.")
                     (handler-bind ((error (lambda (c) (declare (ignore c))
                                             (invoke-restart 'give-up))))
                       (withdraw ann 1))))
  (format t "~a~%" (restart-case (handler-bind ((error (lambda (c)
                                                         (format t "~(~a~) "
                                                                 (restart-name
                                                                  (first (compute-restarts c))))
                                                         (invoke-restart 'mine 7))))
                                   (error "stop"))
                     (mine (x) (* x 6)))))

#|
ann 70, bob 30
ann has 70, 500 needed
moved 70
ann 0, bob 100
moved 0
warned of (2000)
-5 is no amount
((:withdraw 30) (:failed 500) (:withdraw 70))
NIL insufficient-funds
NIL
mine 42
|#
