;;; Forms about format, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(format nil "abc")
; => "abc"

(format nil "~a ~s" "x" "x")
; => "x \"x\""

(format nil "~a" nil)
; => "nil"

(format nil "~:a" nil)
; => "()"

(format nil "~10a|" "abc")
; => "abc       |"

(format nil "~10@a|" "abc")
; => "       abc|"

(format nil "~10,,,'*a|" "abc")
; => "abc*******|"

(format nil "~10,4a|" "abc")
; => "abc        |"

(format nil "~,,3a|" "abc")
; => "abc   |"

(format nil "~va|" 6 "abc")
; => "abc   |"

(format nil "~a~%~a" 1 2)
; => "1^2"

(format nil "~d" 1234567)
; => "1234567"

(format nil "~:d" 1234567)
; => "1,234,567"

(format nil "~@d" 5)
; => "+5"

(format nil "~8d|" 42)
; => "      42|"

(format nil "~8,'0d" 42)
; => "00000042"

(format nil "~8,'0d" -42)
; => "00000-42"

(format nil "~,,'.,4:d" 123456789)
; => "1.2345.6789"

(format nil "~d" 'a)
; => "a"

(format nil "~5d" "a")
; => "a"

(format nil "~d" 1.5)
; => "1.5"

(format nil "~b ~o ~x" 10 10 255)
; => "1010 12 FF"

(format nil "~8,'0b" 5)
; => "00000101"

(format nil "~:b" 255)
; => "11,111,111"

(format nil "~36r" 35)
; => "Z"

(format nil "~3r" 10)
; => "101"

(format nil "~r" 123)
; => "one hundred twenty-three"

(format nil "~r" 0)
; => "zero"

(format nil "~r" -1001)
; => "negative one thousand one"

(format nil "~r" 1234567)
; => "one million two hundred thirty-four thousand five hundred sixty-seven"

(format nil "~:r" 1)
; => "first"

(format nil "~:r" 12)
; => "twelfth"

(format nil "~:r" 21)
; => "twenty-first"

(format nil "~:r" 30)
; => "thirtieth"

(format nil "~:r" 100)
; => "one hundredth"

(format nil "~@r" 1994)
; => "MCMXCIV"

(format nil "~:@r" 1994)
; => "MDCCCCLXXXXIIII"

(format nil "~@r" 4)
; => "IV"

(format nil "~f" 3.14)
; => "3.14"

(format nil "~,2f" 3.14159)
; => "3.14"

(format nil "~8,3f|" 3.14159)
; => "   3.142|"

(format nil "~,2f" 0.005)
; => "0.01"

(format nil "~,1f" 0.25)
; => "0.3"

(format nil "~,1f" 0.35)
; => "0.3"

(format nil "~,0f" 2.5)
; => "3."

(format nil "~,0f" 0.5)
; => "1."

(format nil "~0,0f" 0.5)
; => "1."

(format nil "~5f" 3.14159)
; => "3.142"

(format nil "~3f" 3.14159)
; => "3.1"

(format nil "~2f" 0.5)
; => ".5"

(format nil "~f" 1e10)
; => "10000000000.0"

(format nil "~f" 1e-5)
; => "0.00001"

(format nil "~f" 5)
; => "5.0"

(format nil "~,2f" 1/3)
; => "0.33"

(format nil "~@f" 1.5)
; => "+1.5"

(format nil "~,2f" -0.001)
; => "-0.00"

(format nil "~6,2f" -3.14159)
; => " -3.14"

(format nil "~4,2,,'*f" 1234.5)
; => "****"

(format nil "~,2,2f" 0.5)
; => "50.00"

(format nil "~8,2,,,'0f" 3.14159)
; => "00003.14"

(format nil "~f" 'a)
; => "a"

(format nil "~,3f" 1e10)
; => "10000000000.000"

(format nil "~6,1f" 99.95)
; => " 100.0"

(format nil "~,2f" 99.999)
; => "100.00"

(format nil "~,1f" 0.05)
; => "0.1"

(format nil "~10,2f|" 1e6)
; => "1000000.00|"

(format nil "~e" 12345.678)
; => "1.2345678e+4"

(format nil "~e" 0.00012)
; =! "1.2e-4"

(format nil "~,2e" 12345.678)
; => "1.23e+4"

(format nil "~10,2e|" 12345.678)
; => "   1.23e+4|"

(format nil "~12,3,2e|" 12345.678)
; => "   1.235e+04|"

(format nil "~,3,,0e" 12345.678)
; => "0.123e+5"

(format nil "~,3,,2e" 12345.678)
; => "12.35e+3"

(format nil "~,3,,-1e" 12345.678)
; => "0.012e+6"

(format nil "~e" 0.0)
; => "0.0e+0"

(format nil "~e" 1.0)
; => "1.0e+0"

(format nil "~,4e" 9.99999)
; =! "1.0000e+1"

(format nil "~@e" 1.5)
; =! "+1.5e+0"

(format nil "~8e|" 1.5)
; => "  1.5e+0|"

(format nil "~g" 3.14)
; => "3.14    "

(format nil "~g" 1e10)
; => "10000000000.    "

(format nil "~g" 1e-5)
; => "1.00000e-5"

(format nil "~,3g" 3.14159)
; => "3.14    "

(format nil "~10,3g|" 1234.5)
; =! "  1.235e+3|"

(format nil "~g" 0.0)
; => "0.    "

(format nil "~g" 100.0)
; => "100.    "

(format nil "~$" 3.14159)
; => "3.14"

(format nil "~$" 5)
; => "5.00"

(format nil "~3,2,8$" 3.14159)
; => "  03.142"

(format nil "~@$" 2.5)
; => "+2.50"

(format nil "~,,8:@$" 2.5)
; => "+   2.50"

(format nil "~$" -0.5)
; => "-0.50"

(format nil "~c" #\a)
; => "a"

(format nil "~:c" #\Space)
; => "Space"

(format nil "~@c" #\a)
; => "#\\a"

(format nil "~@c" #\Newline)
; => "#\\Newline"

(format nil "~p" 1)
; => ""

(format nil "~p" 2)
; => "s"

(format nil "~d item~:p" 3)
; => "3 items"

(format nil "~d item~:p" 1)
; => "1 item"

(format nil "~d pupp~:@p" 2)
; => "2 puppies"

(format nil "~d pupp~:@p" 1)
; => "1 puppy"

(format nil "~p" 1.0)
; => "s"

(format nil "~[zero~;one~;two~]" 1)
; => "one"

(format nil "~[zero~;one~:;many~]" 5)
; => "many"

(format nil "~[zero~;one~]" 7)
; => ""

(format nil "~:[no~;yes~]" nil)
; => "no"

(format nil "~:[no~;yes~]" 1)
; => "yes"

(format nil "~@[value ~a~]" 5)
; => "value 5"

(format nil "~@[value ~a~]x" nil)
; => "x"

(format nil "~1[a~;b~]")
; => "b"

(format nil "~#[none~;one ~a~;two ~a ~a~]" 1 2)
; => "two 1 2"

(format nil "~{~a~^, ~}" '(1 2 3))
; => "1, 2, 3"

(format nil "~{~a ~a;~}" '(1 2 3 4))
; => "1 2;3 4;"

(format nil "~:{<~a ~a>~}" '((1 2) (3 4)))
; => "<1 2><3 4>"

(format nil "~@{~a~^-~}" 1 2 3)
; => "1-2-3"

(format nil "~:@{(~a)~}" '(1) '(2))
; => "(1)(2)"

(format nil "~2{~a~}" '(1 2 3))
; => "12"

(format nil "~{~}" "~a" '(1 2))
; => "12"

(format nil "~{x~:}" nil)
; => "x"

(format nil "~{x~}" nil)
; => ""

(format nil "~{~a~#[~;, and ~:;, ~]~}" '(1 2 3))
; => "1, 2, and 3"

(format nil "~:{~a~^,~a~}" '((1) (2 3)))
; => "12,3"

(format nil "~:{~a~:^;~}" '((1) (2)))
; => "1;2"

(format nil "~a~*~a" 1 2 3)
; => "13"

(format nil "~a~:*~a" 1)
; => "11"

(format nil "~a~a~0@*~a" 1 2)
; => "121"

(format nil "~2*~a" 1 2 3)
; => "3"

(format nil "~? ~a" "~a-~a" '(1 2) 3)
; => "1-2 3"

(format nil "~@? ~a" "~a-~a" 1 2 3)
; => "1-2 3"

(format nil "~(HELLO World~)")
; => "hello world"

(format nil "~:(hello wORLD~)")
; => "Hello World"

(format nil "~@(hello wORLD~)")
; => "Hello world"

(format nil "~:@(hello~)")
; => "HELLO"

(format nil "ab~10tcd")
; => "ab        cd"

(format nil "ab~1tcd")
; => "ab cd"

(format nil "ab~5,3tcd")
; => "ab   cd"

(format nil "ab~3@tcd")
; => "ab   cd"

(format nil "ab~3,4@tcd")
; => "ab      cd"

(format nil "~&a~&b~2%c")
; => "a^b^^c"

(format nil "~~ ~3~")
; => "~ ~~~"

(format nil "a~
   b")
; => "ab"

(format nil "a~:
   b")
; => "a   b"

(format nil "a~@
   b")
; => "a^b"

(format nil "~a")
; => error error

(format nil "~a" 1 2)
; => "1"

(format nil "~q" 1)
; => error error

(format nil "~{~a" '(1))
; => error error

(format nil "~vd" 5 42)
; => "   42"

(format nil "~v,vd" 5 #\* 42)
; => "***42"

(format nil "~#d" 1 2)
; => " 1"

(format nil "~va" nil 1)
; => "1"

(format nil "~10<abc~>|")
; => "       abc|"

(format nil "~10<a~;b~;c~>|")
; => "a   b    c|"

(format nil "~10:<abc~>|")
; => "       abc|"

(format nil "~10@<abc~>|")
; => "abc       |"

(format nil "~10:@<abc~>|")
; => "   abc    |"

(format nil "~10,,,'*<a~;b~>|")
; => "a********b|"

(format nil "~s" '(a "b" #\c 1.5))
; => "(a \"b\" #\\c 1.5)"

(format nil "~a" '(a "b" #\c 1.5))
; => "(a b c 1.5)"

(format nil "~w" "a")
; => "\"a\""

(format nil "~a" 1.0e10)
; => "1.0e10"

(format nil "~a and ~a" 1/3 -2.5)
; => "1/3 and -2.5"

(format nil "~^abc")
; => ""

(format nil "~a~^ more" 1)
; => "1"

(format nil "~{~a~^ ~2^~a~}" '(1 2 3))
; => "1 23"

(format nil "~{~1^~a~}" '(1 2))
; => "12"

(format nil "~:d ~@:d" 1000 1000)
; => "1,000 +1,000"

(format nil (formatter "~a-~a") 1 2)
; => "1-2"

(funcall (formatter "~a") *standard-output* 1 2 3)
; => (2 3)

(format t "x~a" 1)
; => nil

(with-output-to-string (s) (format s "~a" 1))
; => "1"

(let ((s (make-array 0 :element-type 'character :fill-pointer 0 :adjustable t))) (format s "ab~a" 1) s)
; => "ab1"

(format nil "~15,2,3,1,'#,'*e|" 12345.678)
; => "******1.23e+004|"

(format nil "~|")
; => ""

(format nil "~3a~3@a~s" 1 2 :k)
; => "1    2:k"

(format nil "~,1f ~,1f ~,1f ~,1f" 0.45 0.55 0.65 0.15)
; => "0.5 0.6 0.7 0.1"

(format nil "~,2f ~,2f ~,2f" 1.005 2.675 1.115)
; => "1.00 2.67 1.11"

(format nil "~,0f ~,0f ~,0f" 1.5 2.5 3.5)
; => "2. 3. 4."

(format nil "~,1f ~,1f" 0.25 0.75)
; => "0.3 0.8"

(format nil "~,2e ~,2e" 1.125 1.135)
; => "1.13e+0 1.14e+0"

(format nil "~$ ~$ ~$" 1.005 2.675 0.125)
; => "1.00 2.67 0.13"

(format nil "~,3f" 0.0005)
; => "0.001"

(format nil "~,3f" 0.00049999)
; => "0.000"

(map 'list (lambda (code) (length (format nil "~:c" (code-char code)))) '(97 160 173 233))
; => (1 1 1 1)

(list (format nil "~:c" #\Space) (format nil "~:c" #\Newline) (format nil "~c" #\Space))
; => ("Space" "Newline" " ")
