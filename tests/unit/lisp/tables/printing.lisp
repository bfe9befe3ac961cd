;;; Forms about printing and reading, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(princ-to-string "a\"b")
; => "a\"b"

(prin1-to-string "a\"b\\c")
; => "\"a\\\"b\\\\c\""

(prin1-to-string #\a)
; => "#\\a"

(princ-to-string #\a)
; => "a"

(prin1-to-string '(1 . 2))
; => "(1 . 2)"

(prin1-to-string '(1 (2 3) . 4))
; => "(1 (2 3) . 4)"

(prin1-to-string #(1 (2) "x"))
; => "#(1 (2) \"x\")"

(prin1-to-string nil)
; => "nil"

(prin1-to-string '|a b|)
; => "|a b|"

(prin1-to-string :key)
; => ":key"

(prin1-to-string '#:foo)
; => "#:foo"

(write-to-string 255 :base 16)
; => "FF"

(write-to-string 255 :base 16 :radix t)
; => "#xFF"

(write-to-string 5 :base 2 :radix t)
; => "#b101"

(write-to-string 10 :radix t)
; => "10."

(write-to-string "a" :escape nil)
; => "a"

(write-to-string '(1 2 3 4) :length 2)
; => "(1 2 ...)"

(write-to-string '(1 (2 (3 (4)))) :level 2)
; => "(1 (2 #))"

(write-to-string #(1 2 3) :length 1)
; => "#(1 ...)"

(write-to-string '(a "b" #\c) :escape nil)
; => "(a b c)"

(with-output-to-string (s) (princ "a" s) (prin1 "b" s) (print 1 s) (terpri s))
; => "a\"b\"^1 ^"

(with-output-to-string (s) (write-char #\x s) (write-string "yz" s) (write-line "w" s) (fresh-line s) (princ 1 s) (fresh-line s))
; => "xyzw^1^"

(with-output-to-string (s) (write-string "hello" s :start 1 :end 3))
; => "el"

(with-output-to-string (*standard-output*) (princ 1) (princ 'a))
; => "1a"

(let ((s (make-string-output-stream))) (princ 1 s) (list (get-output-stream-string s) (get-output-stream-string s)))
; => ("1" "")

(read-from-string "(a b . c)")
; => (a b . c) | 9

(read-from-string "a b")
; => a | 2

(read-from-string "(a) b")
; => (a) | 4

(read-from-string "")
; => error end-of-file

(read-from-string "" nil 'eof)
; => eof | 0

(read-from-string "(a")
; => error end-of-file

(read-from-string "1 2 3" t nil :start 2)
; => 2 | 4

(with-input-from-string (s "a (b) 12") (list (read s) (read s) (read s) (read s nil 'end)))
; => (a (b) 12 end)

(with-input-from-string (s "ab") (list (read-char s) (peek-char nil s) (read-char s) (read-char s nil :eof)))
; => (#\a #\b #\b :eof)

(with-input-from-string (s "one
two") (list (read-line s) (read-line s) (read-line s nil 'x)))
; => ("one" "two" x)

(let (i) (with-input-from-string (s "abc def" :index i) (read s)) i)
; => 4

(let ((*print-base* 2)) (princ-to-string 10))
; => "1010"

(let ((*print-length* 2)) (prin1-to-string '(1 2 3)))
; => "(1 2 ...)"

(let ((*print-case* :upcase)) (prin1-to-string 'abc))
; => "ABC"

(let ((*print-case* :capitalize)) (princ-to-string 'abc-def))
; => "Abc-Def"

(let ((*print-radix* t)) (prin1-to-string 1/3))
; => "#10r1/3"

(let ((*print-gensym* nil)) (prin1-to-string '#:a))
; => "a"

(prin1-to-string '(a . (b . (c))))
; => "(a b c)"

(prin1-to-string '(nil . nil))
; => "(nil)"

(let ((x 5)) (print x) (terpri) x)
; => 5

(let ((*print-circle* t) (s (copy-seq "a"))) (prin1-to-string (list s s)))
; => "(#1=\"a\" #1#)"

(let ((*print-circle* t) (s (list 1 2))) (prin1-to-string (list s s (cdr s))))
; => "(#1=(1 . #2=(2)) #1# #2#)"

(let ((*print-circle* t) (s (vector 1 2))) (setf (aref s 0) s) (prin1-to-string (list s s)))
; => "(#1=#(#1# 2) #1#)"

(let ((*print-circle* t) (s (list 1 2))) (setf (cddr s) s) (prin1-to-string s))
; => "#1=(1 2 . #1#)"

(let ((*print-circle* t) (s (list 1 2))) (prin1-to-string (list s (list 1 2))))
; => "((1 2) (1 2))"

(let ((s (list 1))) (write-to-string (list s s) :circle t))
; => "(#1=(1) #1#)"

(let ((*print-circle* t)) (prin1-to-string '(a a 1 1 "b" "b" #\c #\c)))
; => "(a a 1 1 \"b\" \"b\" #\\c #\\c)"

(write 1 :allow-other-keys nil :allow-other-keys t :foo 2)
; => error program-error

(graphic-char-p (code-char 173))
; => t

(list (graphic-char-p #\Space) (graphic-char-p #\Newline) (graphic-char-p (code-char 160)))
; => (t nil t)

(format nil "~<a~:;b~>~w" 1)
; => error error

(format nil "~<a~;b~>~w" 1)
; => "ab1"

(read-from-string "#3(a b)")
; => #(a b b) | 7

(read-from-string "#0()")
; => #() | 4

(read-from-string "#1(a b)")
; => error reader-error

(read-from-string "#2()")
; => error reader-error

(read-from-string "#:a:b")
; => error reader-error

(read-from-string (string (code-char 8)))
; => error reader-error

(read-from-string (coerce (list #\a (code-char 127)) 'string))
; => error reader-error
