;;; Building strings: fill pointers, string streams, character by character.

(defun make-builder () (make-array 4 :element-type 'character :adjustable t :fill-pointer 0))

(defun add (builder thing)
  (etypecase thing
    (character (vector-push-extend thing builder))
    (string (loop for c across thing do (vector-push-extend c builder)))
    (integer (add builder (format nil "~d" thing)))
    (symbol (add builder (string-downcase (symbol-name thing))))
    (list (dolist (x thing) (add builder x))))
  builder)

(let ((b (make-builder)))
  (add b "x = ")
  (add b 42)
  (add b (list #\, #\Space 'done #\!))
  (format t "~a (~d of at least ~d)~%" b (length b) (length b))
  (setf (fill-pointer b) 6)
  (format t "[~a] ~s~%" b (subseq b 0 3)))

(defun join (strings separator)
  (with-output-to-string (out)
    (loop for (string . more) on strings
          do (write-string string out)
          when more do (princ separator out))))

(defun split (string &optional (at #\Space))
  (loop for start = 0 then (1+ end)
        for end = (position at string :start start)
        collect (subseq string start end)
        while end))

(format t "~a~%~s~%" (join '("a" "b" "c") ", ") (split "to be or  not"))

(defun title (string)
  (let ((copy (copy-seq string)))
    (setf (char copy 0) (char-upcase (char copy 0)))
    copy))

(defun caesar (text by)
  (map 'string
       (lambda (c)
         (cond ((upper-case-p c) (code-char (+ 65 (mod (+ by (- (char-code c) 65)) 26))))
               ((lower-case-p c) (code-char (+ 97 (mod (+ by (- (char-code c) 97)) 26))))
               (t c)))
       text))

(let* ((text "Veni, vidi!") (secret (caesar text 3)))
  (format t "~a ~a ~a~%" secret (caesar secret -3) (title "latin")))

(defun wrap (text width)
  (let ((column 0))
    (with-output-to-string (out)
      (dolist (word (split text))
        (cond ((zerop column))
              ((> (+ column 1 (length word)) width) (terpri out) (setf column 0))
              (t (write-char #\Space out) (incf column)))
        (write-string word out)
        (incf column (length word))))))

(format t "~a~%" (wrap "the quick brown fox jumps over the lazy dog" 12))
(format t "|~10a|~10@a|~10,,,'*a|~%" "left" "right" "fill")
(format t "~s ~s ~s~%" (string-trim " .;" "  ; trimmed. ") (reverse "stressed") (search "ss" "assess" :start2 2))
(format t "~:[odd~;even~] ~r ~:r ~@r~%" (evenp 3) 21 21 21)
(let ((s (make-string 3 :initial-element #\-)))
  (setf (char s 1) #\+)
  (format t "~a ~a ~a~%" s (string= s "-+-") (string< "abc" "abd")))

#|
x = 42, done! (13 of at least 13)
[x = 42] "x ="
a, b, c
("to" "be" "or" "" "not")
Yhql, ylgl! Veni, vidi! Latin
the quick
brown fox
jumps over
the lazy dog
|left      |     right|fill******|
"trimmed" "desserts" 4
odd twenty-one twenty-first XXI
-+- T 2
|#
