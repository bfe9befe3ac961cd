;;; Forms about sequences, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(length '(1 2 3))
; => 3

(length "abc")
; => 3

(length #(1 2))
; => 2

(length '(1 . 2))
; => error type-error

(length 5)
; => error type-error

(elt '(a b c) 1)
; => b

(elt "abc" 1)
; => #\b

(elt #(1 2 3) 3)
; => error type-error

(elt '(1 2) 2)
; => error type-error

(elt '(1 2) -1)
; => error type-error

(subseq "hello" 1 3)
; => "el"

(subseq '(1 2 3) 1)
; => (2 3)

(subseq #(1 2 3) 0 2)
; => #(1 2)

(subseq "abc" 2 1)
; => error type-error

(subseq "abc" 0 4)
; => error type-error

(copy-seq #(1 2))
; => #(1 2)

(reverse "abc")
; => "cba"

(reverse '(1 2 3))
; => (3 2 1)

(nreverse (list 1 2 3))
; => (3 2 1)

(nreverse (vector 1 2 3))
; => #(3 2 1)

(concatenate 'string "ab" '(#\c) #(#\d))
; => "abcd"

(concatenate 'list "ab" '(1))
; => (#\a #\b 1)

(concatenate 'vector '(1) #(2))
; => #(1 2)

(concatenate 'string "a" '(1))
; => error type-error

(concatenate '(vector t 3) '(1) #(2))
; => error type-error

(concatenate 'symbol '(1))
; => error type-error

(make-sequence 'list 2 :initial-element 1)
; => (1 1)

(make-sequence 'string 2 :initial-element #\x)
; => "xx"

(make-sequence '(vector t 2) 3)
; => error type-error

(map 'list #'+ '(1 2) #(10 20 30))
; => (11 22)

(map 'string #'char-upcase "abc")
; => "ABC"

(map 'vector #'1+ '(1 2))
; => #(2 3)

(map nil #'identity '(1 2))
; => nil

(map-into (list 1 2 3) #'+ '(1 1) '(2 2))
; => (3 3 3)

(map-into (vector 0 0) #'1+ '(5 6 7))
; => #(6 7)

(reduce #'+ '(1 2 3))
; => 6

(reduce #'+ nil)
; => 0

(reduce #'+ nil :initial-value 5)
; => 5

(reduce #'- '(1 2 3 4) :from-end t)
; => -2

(reduce #'list '(1 2 3 4) :from-end t :initial-value 'z)
; => (1 (2 (3 (4 z))))

(reduce #'list '(1 2 3 4) :initial-value 'z)
; => ((((z 1) 2) 3) 4)

(reduce #'+ '((1) (2)) :key #'car)
; => 3

(reduce #'+ '(1 2 3 4) :start 1 :end 3)
; => 5

(reduce #'list '(1))
; => 1

(reduce #'list '(1 2) :start 1)
; => 2

(every #'evenp '(2 4))
; => t

(every #'< '(1 2) '(2 3 0))
; => t

(some #'identity '(nil 3 4))
; => 3

(some #'evenp "")
; => nil

(notany #'evenp '(1 3))
; => t

(notevery #'evenp '(2 3))
; => t

(find 2 '(1 2 3))
; => 2

(find 2 #(1 2 3) :key #'1+)
; => 1

(find #\b "abc")
; => #\b

(find 3 '(1 2 3) :start 0 :end 2)
; => nil

(find '(b) '((a) (b)) :test #'equal)
; => (b)

(find 1 '(1 2) :foo 1)
; => error program-error

(find-if #'evenp '(1 2 4) :from-end t)
; => 4

(find-if-not #'evenp '(2 3))
; => 3

(position 2 '(1 2 2) :from-end t)
; => 2

(position #\c "abc")
; => 2

(position 9 '(1))
; => nil

(position-if #'evenp #(1 3 4 6) :start 3)
; => 3

(position-if-not #'evenp '(2 4 5))
; => 2

(count 1 '(1 2 1))
; => 2

(count 1 '(1 2 1) :start 1)
; => 1

(count-if #'upper-case-p "aBC")
; => 2

(count-if-not #'evenp '(1 2 3) :end 2)
; => 1

(remove 1 '(1 2 1 3))
; => (2 3)

(remove 1 '(1 2 1 3) :count 1)
; => (2 1 3)

(remove 1 '(1 2 1 3) :count 1 :from-end t)
; => (1 2 3)

(remove 1 '(1 2 1 3) :count -1)
; => (1 2 1 3)

(remove #\a "banana" :start 2)
; => "bann"

(remove 1 #(1 2 1))
; => #(2)

(remove-if #'evenp '(1 2 3 4))
; => (1 3)

(remove-if #'evenp #(1 2 3 4) :count 1)
; => #(1 3 4)

(remove-if-not #'evenp '(1 2 3 4))
; => (2 4)

(delete 1 (list 1 2 1))
; => (2)

(delete-if #'evenp (vector 1 2 3))
; => #(1 3)

(remove 3 '(1 2 3 4) :test #'<)
; => (1 2 3)

(remove 'a '((a 1) (b 2)) :key #'car)
; => ((b 2))

(remove 1 '(1 2) :count 'x)
; => error type-error

(remove-duplicates '(1 2 1 3))
; => (2 1 3)

(remove-duplicates '(1 2 1 3) :from-end t)
; => (1 2 3)

(remove-duplicates "abcab")
; => "cab"

(remove-duplicates '((a 1) (b 2) (a 3)) :key #'car)
; => ((b 2) (a 3))

(remove-duplicates '("a" "A" "b") :test #'string-equal)
; => ("A" "b")

(remove-duplicates '(1 2 1 2 3) :start 1)
; => (1 1 2 3)

(substitute 'x 1 '(1 2 1))
; => (x 2 x)

(substitute 'x 1 '(1 2 1) :count 1 :from-end t)
; => (1 2 x)

(substitute #\x #\a "banana" :end 3)
; => "bxnana"

(substitute-if 0 #'evenp '(1 2 3 4) :start 2)
; => (1 2 3 0)

(substitute-if-not 0 #'evenp #(1 2 3))
; => #(0 2 0)

(nsubstitute 0 1 (list 1 2 1))
; => (0 2 0)

(nsubstitute-if 0 #'oddp (vector 1 2 3))
; => #(0 2 0)

(sort (list 3 1 2) #'<)
; => (1 2 3)

(sort (list 3 1 2) #'> :key #'-)
; => (1 2 3)

(sort (copy-seq "hello") #'char<)
; => "ehllo"

(sort (vector 3 1 2) #'<)
; => #(1 2 3)

(stable-sort (list '(1 . a) '(0 . b) '(1 . c) '(0 . d)) #'< :key #'car)
; => ((0 . b) (0 . d) (1 . a) (1 . c))

(merge 'list (list 1 3) (list 2 4) #'<)
; => (1 2 3 4)

(merge 'list (list '(1 a) '(2 b)) (list '(1 c)) #'< :key #'car)
; => ((1 a) (1 c) (2 b))

(merge 'string "ac" "bd" #'char<)
; => "abcd"

(search "lo" "hello")
; => 3

(search '(1 2) '(0 1 2 1 2) :from-end t)
; => 3

(search "" "abc")
; => 0

(search "x" "abc")
; => nil

(search "LO" "hello" :test #'char-equal)
; => 3

(search "abc" "xbcx" :start1 1)
; => 1

(search '(2) '(1 2) :key #'1+)
; => 1

(mismatch "abc" "abd")
; => 2

(mismatch '(1 2) '(1 2))
; => nil

(mismatch '(1 2 3) '(1 2))
; => 2

(mismatch "abcd" "xbcd" :from-end t)
; => 1

(mismatch '(3 2 1) '(2 1) :from-end t)
; => 1

(mismatch "abc" "xbc" :start1 1 :start2 1)
; => nil

(fill (list 1 2 3) 0 :start 1)
; => (1 0 0)

(fill (make-string 3) #\z)
; => "zzz"

(replace (list 1 2 3) '(a b) :start1 1)
; => (1 a b)

(replace (vector 1 2 3 4) #(9 8 7) :start2 1 :end1 1)
; => #(8 2 3 4)

(replace (copy-seq "abcdef") "xyz" :start1 4)
; => "abcdxy"

(let ((s (copy-seq "hello"))) (setf (subseq s 1 3) "XYZ") s)
; => "hXYlo"

(let ((s (vector 1 2 3))) (setf (elt s 1) 'x) s)
; => #(1 x 3)

(let ((s (list 1 2 3))) (setf (elt s 2) 'x) s)
; => (1 2 x)

(sort (list 1 2 3) #'<= )
; => (1 2 3)

(length nil)
; => 0

(position nil '(1 nil))
; => 1

(count nil '(nil t nil))
; => 2

(remove nil '(nil 1))
; => (1)

(reduce #'max #(3 9 2))
; => 9

(reduce (lambda (a b) (+ (* 10 a) b)) '(1 2 3))
; => 123
