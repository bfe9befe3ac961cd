;;; Forms about strings and characters, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(string= "abc" "abc")
; => t

(string= "abc" "ABC")
; => nil

(string-equal "abc" "ABC")
; => t

(string< "abc" "abd")
; => 2

(string< "abc" "abc")
; => nil

(string< "ab" "abc")
; => 2

(string> "b" "abc")
; => 0

(string<= "abc" "abc")
; => 3

(string>= "abc" "abd")
; => nil

(string/= "abc" "abd")
; => 2

(string/= "abc" "abc")
; => nil

(string-lessp "ABC" "abd")
; => 2

(string-greaterp "b" "A")
; => 0

(string-not-equal "a" "A")
; => nil

(string-not-lessp "a" "A")
; => 1

(string-not-greaterp "a" "B")
; => 0

(string= "xabc" "abcx" :start1 1 :end2 3)
; => t

(string< "xabc" "xabd" :start1 1 :start2 1)
; => 3

(string= 'a "A")
; =! nil

(string= #\a "a")
; => t

(string-upcase "hello World")
; => "HELLO WORLD"

(string-downcase "HELLO" :start 1)
; => "Hello"

(string-capitalize "hello wORLD foo-bar a1b")
; => "Hello World Foo-Bar A1b"

(string-upcase "hello" :start 1 :end 3)
; => "hELlo"

(nstring-upcase (copy-seq "abc"))
; => "ABC"

(string-trim " " "  a b ")
; => "a b"

(string-trim '(#\x) "xxaxx")
; => "a"

(string-left-trim "ab" "abcab")
; => "cab"

(string-right-trim "ab" "abcab")
; => "abc"

(string #\a)
; => "a"

(string "abc")
; => "abc"

(string 1)
; => error type-error

(char "abc" 1)
; => #\b

(char "abc" 3)
; => error type-error

(schar "abc" 0)
; => #\a

(make-string 3 :initial-element #\a)
; => "aaa"

(length (make-string 2))
; => 2

(stringp "a")
; => t

(stringp #\a)
; => nil

(simple-string-p "a")
; => t

(parse-integer "42")
; => 42 | 2

(parse-integer " -42 ")
; => -42 | 5

(parse-integer "+7")
; => 7 | 2

(parse-integer "ff" :radix 16)
; => 255 | 2

(parse-integer "12x" :junk-allowed t)
; => 12 | 2

(parse-integer "x" :junk-allowed t)
; => nil | 0

(parse-integer "12x")
; => error parse-error

(parse-integer "")
; => error parse-error

(parse-integer "abc123" :start 3)
; => 123 | 6

(parse-integer "1 2")
; => error parse-error

(let ((s (copy-seq "abc"))) (setf (char s 1) #\X) s)
; => "aXc"

(string< "" "a")
; => 0

(string-equal "abc" "xABc" :start2 1)
; => t

(string= "a")
; => error program-error

(string-trim "abc" "")
; => ""

(string-capitalize "DON'T stop")
; => "Don'T Stop"

(characterp #\a)
; => t

(char= #\a #\a #\a)
; => t

(char= #\a #\b)
; => nil

(char/= #\a #\b #\a)
; => nil

(char< #\a #\b #\c)
; => t

(char> #\c #\b #\a)
; => t

(char<= #\a #\a #\b)
; => t

(char>= #\b #\a #\b)
; => nil

(char-equal #\a #\A)
; => t

(char-lessp #\a #\B)
; => t

(char-greaterp #\B #\a)
; => t

(char-not-equal #\a #\A)
; => nil

(char-upcase #\a)
; => #\A

(char-downcase #\A)
; => #\a

(char-upcase #\1)
; => #\1

(alpha-char-p #\a)
; => t

(alpha-char-p #\1)
; => nil

(alphanumericp #\_)
; => nil

(upper-case-p #\A)
; => t

(lower-case-p #\A)
; => nil

(both-case-p #\1)
; => nil

(both-case-p #\z)
; => t

(digit-char-p #\7)
; => 7

(digit-char-p #\7 7)
; => nil

(digit-char-p #\f 16)
; => 15

(digit-char 11 16)
; => #\B

(digit-char 11)
; => nil

(char-code #\A)
; => 65

(code-char 97)
; => #\a

(char-name #\Space)
; => "Space"

(char-name #\Newline)
; => "Newline"

(char-name #\Tab)
; => "Tab"

(name-char "space")
; =! #\Space

(name-char "NEWLINE")
; => #\Newline

(name-char "nosuch")
; => nil

(graphic-char-p #\Newline)
; => nil

(graphic-char-p #\a)
; => t

(standard-char-p #\a)
; => t

(character "a")
; => #\a

(character "ab")
; => error type-error

(character 'a)
; =! #\a

(char-int #\a)
; => 97

(list #\a #\Space #\Newline #\Tab #\Rubout #\Backspace #\Return #\Page)
; =! (#\a #\Space #\Newline #\Tab #\Rubout #\Backspace #\Return #\Page)

(char= #\a 1)
; => error type-error

(char-upcase "a")
; => error type-error

(code-char -1)
; => error type-error
