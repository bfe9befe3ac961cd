;;; Forms about vectors, types and coercion, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(vector 1 2 3)
; => #(1 2 3)

(make-array 3 :initial-element 0)
; => #(0 0 0)

(make-array '(2) :initial-contents '(1 2))
; => #(1 2)

(make-array 3 :initial-contents "abc" :element-type 'character)
; => "abc"

(make-array 2 :initial-contents '(1 2 3))
; => error error

(make-array 2 :element-type 'character :initial-element #\x)
; => "xx"

(aref #(1 2 3) 1)
; => 2

(aref "abc" 2)
; => #\c

(aref #(1 2 3) 3)
; => error type-error

(aref #(1 2 3) -1)
; => error type-error

(aref '(1) 0)
; => error type-error

(svref #(1 2) 0)
; => 1

(svref "ab" 0)
; => error type-error

(let ((v (vector 1 2 3))) (setf (aref v 0) 'x) v)
; => #(x 2 3)

(let ((v (vector 1 2 3))) (incf (svref v 1) 10) v)
; => #(1 12 3)

(vectorp #(1))
; => t

(vectorp "a")
; => t

(vectorp '(1))
; => nil

(simple-vector-p #(1))
; => t

(simple-vector-p "a")
; => nil

(arrayp "a")
; => t

(let ((v (make-array 3 :fill-pointer 0))) (list (vector-push 'a v) (vector-push 'b v) (fill-pointer v) (length v) v))
; => (0 1 2 2 #(a b))

(let ((v (make-array 1 :fill-pointer 0))) (list (vector-push 'a v) (vector-push 'b v) (vector-pop v) (length v)))
; => (0 nil a 0)

(let ((v (make-array 0 :fill-pointer 0 :adjustable t))) (dotimes (i 4) (vector-push-extend i v)) v)
; => #(0 1 2 3)

(let ((v (make-array 5 :fill-pointer 2 :initial-element 0))) (setf (fill-pointer v) 4) (list (length v) (array-dimension v 0) (array-total-size v)))
; => (4 5 5)

(let ((s (make-array 3 :fill-pointer 2 :element-type 'character :initial-element #\a))) (list s (string= s "aa") (char s 2)))
; => ("aa" t #\a)

(vector-pop (make-array 2 :fill-pointer 0))
; => error error

(array-has-fill-pointer-p #(1))
; => nil

(array-rank #(1 2))
; => 1

(array-dimensions "abc")
; => (3)

(array-in-bounds-p #(1 2) 2)
; => nil

(array-row-major-index #(1 2) 1)
; => 1

(array-element-type "abc")
; => character

(array-element-type #(1))
; => t

(row-major-aref #(1 2) 1)
; => 2

(fill-pointer #(1 2))
; => error type-error

(let ((v (make-array 4 :fill-pointer 2 :initial-contents '(1 2 3 4)))) (list (reverse v) (aref v 3) (position 3 v)))
; => (#(2 1) 4 nil)

(equalp #(1 #(2)) (vector 1 (vector 2)))
; => t

(coerce '(1 2) 'vector)
; => #(1 2)

(coerce #(#\a #\b) 'string)
; => "ab"

(coerce "ab" 'list)
; => (#\a #\b)

(coerce 1 'double-float)
; => 1.0

(coerce 1/2 'double-float)
; => 0.5

(coerce "a" 'character)
; => #\a

(coerce 'abs 'function)
; => #<function abs>

(coerce 1.5 'integer)
; => error type-error

(coerce 5 'integer)
; => 5

(coerce '(1 2) '(vector t 3))
; => error type-error

(coerce '(1 2) 'string)
; => error type-error

(coerce nil 'vector)
; => #()

(coerce #(1 2) 'simple-vector)
; => #(1 2)

(typep 1 'integer)
; => t

(typep 1 '(integer 0 10))
; => t

(typep 10 '(integer 0 (10)))
; => nil

(typep 1.5 'float)
; => t

(typep 1.5 '(float 0 2))
; => t

(typep 1/2 'ratio)
; => t

(typep nil 'list)
; => t

(typep nil 'null)
; => t

(typep nil 'symbol)
; => t

(typep t 'boolean)
; => t

(typep :a 'keyword)
; => t

(typep 'a '(member a b))
; => t

(typep 'c '(member a b))
; => nil

(typep 1 '(or string integer))
; => t

(typep 1 '(and integer (not (eql 2))))
; => t

(typep 2 '(satisfies evenp))
; => t

(typep '(1 . "a") '(cons integer string))
; => t

(typep "abc" '(string 3))
; => t

(typep "abc" 'simple-string)
; => t

(typep #(1 2) '(vector t 2))
; => t

(typep #(1 2) '(simple-vector 3))
; => nil

(typep #(1 2) '(array t (2)))
; => t

(typep #(1 2) '(array t 2))
; => nil

(typep "a" '(vector character))
; => t

(typep "a" 'sequence)
; => t

(typep #\a 'standard-char)
; => t

(typep 255 '(unsigned-byte 8))
; => t

(typep 256 '(unsigned-byte 8))
; => nil

(typep -128 '(signed-byte 8))
; => t

(typep 5 '(mod 5))
; => nil

(typep 1 'bit)
; => t

(typep (expt 2 70) 'bignum)
; => t

(typep 1 'fixnum)
; => t

(typep #'car 'function)
; => t

(typep (make-hash-table) 'hash-table)
; => t

(typep 1 'nosuchtype)
; => error error

(typep 1 t)
; => t

(typep 1 nil)
; => nil

(typep 1 'atom)
; => t

(typep 1 'real)
; => t

(typep 1 'number)
; => t

(typep 1 '(real 0 1))
; => t

(subtypep 'integer 'number)
; => t | t

(subtypep 'number 'integer)
; => nil | t

(subtypep '(integer 0 10) '(integer 0 20))
; => t | t

(subtypep '(or integer ratio) 'rational)
; => t | t

(subtypep 'rational '(or integer ratio))
; => t | t

(subtypep 'null 'list)
; => t | t

(subtypep 'list 'sequence)
; => t | t

(subtypep '(and integer (not (integer 0 5))) '(or (integer * -1) (integer 6)))
; => t | t

(subtypep '(cons integer) 'cons)
; => t | t

(subtypep 'cons '(cons integer))
; => nil | t

(subtypep 'keyword 'symbol)
; => t | t

(subtypep nil 'integer)
; => t | t

(subtypep 'string 'vector)
; => t | t

(subtypep 'boolean 'symbol)
; => t | t

(subtypep '(member 1 2) 'integer)
; => t | t

(subtypep '(eql a) 'symbol)
; => t | t

(subtypep 'float 'real)
; => t | t

(subtypep '(integer (0) (1)) nil)
; => t | t

(subtypep 'simple-error 'error)
; => t | t

(subtypep 'error 'condition)
; => t | t

(subtypep 'error 'simple-error)
; => nil | t
