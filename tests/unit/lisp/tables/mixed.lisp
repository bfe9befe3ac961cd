;;; Forms about several chapters, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(subtypep '(rational 1 1) 'integer)
; => t | t

(subtypep 'symbol '(or null keyword (not list)))
; => t | t

(subtypep '(vector character) 'string)
; => t | t

(subtypep '(simple-array character (3)) '(string 3))
; => t | t

(subtypep '(and symbol (not keyword)) 'symbol)
; => t | t

(subtypep '(cons (or integer float) t) '(or (cons integer) (cons float)))
; => t | t

(subtypep '(not integer) '(not (integer 0 5)))
; => t | t

(subtypep 'fixnum '(signed-byte 63))
; => t | t

(subtypep '(satisfies evenp) 'integer)
; => nil | nil

(typep 5 '(values integer))
; => error error

(loop for x in '(1 2 3) minimize x into a maximize x into b finally (return (list a b)))
; => (1 3)

(multiple-value-list (floor 7/2))
; => (3 1/2)

(format nil "~a" (list 1.5 2/3 "x" #\y 'sym :key))
; => "(1.5 2/3 x y sym key)"

(format nil "~s" '|Foo Bar|)
; => "|Foo Bar|"

(format nil "~@:r" 4)
; => "IIII"

(format nil "~,,2f" 1.5)
; => "150.0"

(format nil "~10,2,1f" 3.14159)
; => "     31.42"

(format nil "~,v,f" 2 3.14159)
; => "3.14"

(format nil "~7,3,2e|~8,1,1e|" 1234.5 0.00012345)
; =! "1.235e+03|  1.2e-4|"

(format nil "~9,2,2,3e|~9,3,2,-2e|" 3.14159 3.14159)
; => " 314.e-02|0.003e+03|"

(format nil "~20,10e|" 1.0)
; => "     1.0000000000e+0|"

(format nil "~6,2,1,1,'*e|" 123.456)
; => "******|"

(format nil "~12,4g|~12,4g|" 0.01234 123456.0)
; => "   1.2340e-2|   1.2346e+5|"

(format nil "~3,1f|~1,1f|~4,1f" 12.34 12.34 -0.04)
; => "12.3|12.3|-0.0"

(format nil "~5,1,,,'0f" -2.5)
; => "0-2.5"

(format nil "~{~a: ~{~a~^ ~}~^; ~}" '(a (1 2) b (3)))
; => "a: 1 2; b: 3"

(format nil "~@{~a~#[~; and ~:;, ~]~}" 1 2 3)
; => "1, 2 and 3"

(format nil "~:[~a~;~a!~]" t 5)
; => "5!"

(format nil "~[~;~a~:;~d~]" 1 'x)
; => "x"

(format nil "~30<~a~;~a~:;~a~>" 1 2 3)
; => "1             2              3"

(format nil "~:@(~a~) ~(~a~)" "foo" 'BAR)
; => "FOO bar"

(format nil "~vt~a" 4 1)
; => "    1"

(string-capitalize "mc-donald's o'neil 3rd")
; => "Mc-Donald'S O'Neil 3rd"

(parse-integer "  12  34" :start 0 :end 4)
; => 12 | 4

(write-to-string 1.5e-10)
; => "1.5e-10"

(rationalize 1.1)
; => 11/10

(round -3/2)
; => -2 | 1/2

(round 1e15)
; => 1000000000000000 | 0.0

(log 1000.0 10)
; =! 3.0

(expt 2.5 2)
; => 6.25

(atan -1.0 -0.0)
; => -1.5707963267948966

(integer-decode-float 0.1)
; => 7205759403792794 | -56 | 1

(float-precision 1d-310)
; => 45

(decode-float 1d-310)
; => 0.5752618031559393 | -1029 | 1.0

(ash -7 -1)
; => -4

(logcount -1)
; => 0

(boole boole-nand 5 3)
; => -2

(mod -5.5 2)
; => 0.5

(rem 5 -3)
; => 2

(ftruncate 2.7)
; => 2.0 | 0.7000000000000002

(fceiling -0.5)
; => -0.0 | -0.5

(max 1 1.0)
; => 1

(min 1.0 1)
; => 1.0

(char-name #\Rubout)
; => "Rubout"

(sort (list "b" "A" "c") #'string-lessp)
; => ("A" "b" "c")

(remove-duplicates '(1 2 3 2 1) :test #'= :from-end t)
; => (1 2 3)

(set-exclusive-or '(1 2 3) '(3 4))
; => (4 2 1)

(reduce #'cons '(1 2 3) :from-end t :initial-value nil)
; => (1 2 3)

(map 'list #'list "ab" '(1 2))
; => ((#\a 1) (#\b 2))

(merge 'vector (vector 1 3) (list 2) #'<)
; => #(1 2 3)

(search '(2 3) #(1 2 3 4))
; => 1

(position-if-not #'plusp '(1 -1 2) :from-end t)
; => 1

(count 1 '(1 1 1) :start 1 :from-end t)
; => 2

(nsubstitute-if-not 0 #'evenp (list 1 2 3) :count 1 :from-end t)
; => (1 2 0)

(last '(1 2 3) 0)
; => nil

(nthcdr 0 nil)
; => nil

(getf nil 'a 'b)
; => b

(make-string 2 :initial-element #\z)
; => "zz"

(with-output-to-string (s) (format s "~&a~&b~%~&c"))
; => "a^b^c"

(subtypep '(rational 1 1) 'integer)
; => t | t

(subtypep 'rational '(or integer ratio))
; => t | t

(subtypep '(and rational (not integer)) 'ratio)
; => t | t

(progn (let ((x 0))
         (defun set-hidden (n) (setq x n))
         (defmacro hidden () `',x))
       (list (eval '(hidden)) (set-hidden 'a) (eval '(hidden))))
; => (0 a a)

(let ((n 3)) (deftype up-to-n () `(integer 0 ,n)) (list (typep 3 'up-to-n) (typep 4 'up-to-n)))
; => (t nil)

(macrolet ((m (()) :empty)) (m ()))
; => :empty

(macrolet ((m ((a) &optional (b a)) `(list ,a ,b))) (m (1)))
; => (1 1)

(flet ((nil () 'a)) (nil))
; => a

(equal (funcall (macro-function 'lambda) '(lambda (x) x) nil) '#'(lambda (x) x))
; => t

(equal (macroexpand-1 '(lambda (x) x)) '#'(lambda (x) x))
; => t

(let ((x :dynamic)) (declare (special x))
  (let ((x :lexical)) ((lambda (&aux (y x)) (declare (special x)) (list y x)))))
; => (:lexical :dynamic)

(let ((it 'z)) (loop for x in '(a b) when x collect it and collect it))
; => (a z b z)

(let ((it 'z)) (loop for x in '(nil b) when x collect it else collect it))
; => (z b)

(defstruct (no-predicate (:type list) (:predicate no-predicate-p)) a)
; => error error

(defstruct (bad-names (:type (vector double-float)) :named) a)
; => error error

(subtypep '(vector base-char) 'base-string)
; => t | t

(subtypep 'base-string '(vector base-char))
; => t | t

(typep "abc" '(vector base-char))
; =! t

(subtypep '(vector character) 'string)
; => t | t

(let ((e '(member a 1 1.5d0 #\b))) (mapcar (lambda (x) (typep x e)) '(a 1 1.5d0 #\b b 2 2.5d0 #\c)))
; => (t t t t nil nil nil nil)
