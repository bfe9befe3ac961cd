;;; Counting words, with loop in many of its forms.

(defparameter *text*
  "The cat sat on the mat. The dog, the other dog, saw the cat; the cat ran!
A mat is not a cat -- not even on a Sunday.")

(defun words (text)
  (loop with start = nil
        for i from 0 to (length text)
        for c = (if (< i (length text)) (char text i) #\Space)
        for inside = (alpha-char-p c)
        when (and inside (not start)) do (setf start i)
        when (and start (not inside))
          collect (string-downcase (subseq text start i)) and do (setf start nil)))

(defun frequencies (words)
  (let ((table (make-hash-table :test #'equal)))
    (dolist (word words table) (incf (gethash word table 0)))))

(defun ranked (table)
  (sort (loop for word being the hash-keys of table using (hash-value count)
              collect (cons word count))
        (lambda (a b)
          (or (> (cdr a) (cdr b))
              (and (= (cdr a) (cdr b)) (string< (car a) (car b)))))))

(let* ((words (words *text*)) (table (frequencies words)) (ranked (ranked table)))
  (format t "~d words, ~d different~%" (length words) (hash-table-count table))
  (loop for (word . count) in ranked
        for rank from 1
        while (> count 1)
        do (format t "~2d. ~10a ~3d ~a~%" rank word count (make-string count :initial-element #\*)))
  (loop for (nil . count) in ranked
        sum count into total
        maximize count into most
        minimize count into least
        count (= count 1) into single
        finally (format t "~a ~a ~a ~a ~,3f~%" total most least single (/ total (length ranked))))
  (format t "~a~%" (loop for (word) in ranked
                         when (> (length word) 3) collect word into long
                         else when (string= word "a") do (loop-finish)
                         finally (return (list :long long))))
  (format t "~a~%" (loop for word in words
                         thereis (and (> (length word) 4) word)))
  (format t "~a ~a~%" (loop for w in words always (plusp (length w)))
          (loop for w in words never (string= w "bird"))))

;; Grouped by length, in nested loops.
(defun by-length (words)
  (loop with groups = (make-array 10 :initial-element nil)
        for word in (remove-duplicates words :test #'string=)
        do (pushnew word (aref groups (length word)) :test #'string=)
        finally (return (loop for group across groups
                              for size from 0
                              when group collect (cons size (sort group #'string<))))))
(loop for (size . group) in (by-length (words *text*))
      do (format t "~d:~{ ~a~}~%" size group))

;; Parallel and stepped variables, destructuring, several lists, a named loop.
(format t "~a~%" (loop for i from 10 downto 1 by 3 for (a b) on '(p q r s) by #'cddr
                       collect (list i a b)))
(format t "~a~%" (loop for x = 1 then (* 2 x) and y = 0 then x repeat 6 collect (+ x y)))
(format t "~a~%" (loop named outer
                       for i from 1 to 20
                       do (loop for j from 1 to i
                                when (= (* i j) 91) do (return-from outer (list i j)))))
(format t "~a~%" (loop for c across "hello" for code = (char-code c)
                       if (oddp code) collect c into odd else collect c into even end
                       finally (return (list (coerce odd 'string) (coerce even 'string)))))
(format t "~a~%" (loop for row in '((1 2 3) (4 5 6)) append (mapcar #'1+ row)
                       nconc (list (reduce #'+ row))))

#|
28 words, 14 different
 1. the          6 ******
 2. cat          4 ****
 3. a            3 ***
 4. dog          2 **
 5. mat          2 **
 6. not          2 **
 7. on           2 **
28 6 1 7 2.000
(LONG NIL)
other
T T
1: a
2: is on
3: cat dog mat not ran sat saw the
4: even
5: other
6: sunday
((10 P Q) (7 R S))
(1 3 6 12 24 48)
(13 7)
(eo hll)
(2 3 4 6 5 6 7 15)
|#
