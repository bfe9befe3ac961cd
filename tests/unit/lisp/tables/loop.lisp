;;; Forms about loop, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(loop for x in '(1 2 3) collect x)
; => (1 2 3)

(loop for x in '(1 2 3 4) by #'cddr collect x)
; => (1 3)

(loop for x on '(1 2 3) collect x)
; => ((1 2 3) (2 3) (3))

(loop for (a b) on '(1 2 3 4) by #'cddr collect (list b a))
; => ((2 1) (4 3))

(loop for (a . b) in '((1 . 2) (3 . 4)) collect (+ a b))
; => (3 7)

(loop for (a (b nil) . c) in '((1 (2 9) 3 4)) collect (list a b c))
; => ((1 2 (3 4)))

(loop for (a b) in '((1)) collect (list a b))
; => ((1 nil))

(loop for x across #(1 2 3) collect (* x x))
; => (1 4 9)

(loop for c across "abc" collect c)
; => (#\a #\b #\c)

(loop for i from 1 to 5 collect i)
; => (1 2 3 4 5)

(loop for i from 1 below 5 by 2 collect i)
; => (1 3)

(loop for i downfrom 5 to 1 collect i)
; => (5 4 3 2 1)

(loop for i from 5 downto 1 by 2 collect i)
; => (5 3 1)

(loop for i from 5 above 1 collect i)
; => (5 4 3 2)

(loop for i below 3 collect i)
; => (0 1 2)

(loop for i upto 3 collect i)
; => (0 1 2 3)

(loop for i upfrom 3 to 5 collect i)
; => (3 4 5)

(loop for i from 0 to 1 by 1/4 collect i)
; => (0 1/4 1/2 3/4 1)

(loop for i from 1.0 to 2.0 by 0.5 collect i)
; => (1.0 1.5 2.0)

(loop for i to 3 from 1 collect i)
; => (1 2 3)

(loop for i from 1 for j from 10 below 13 collect (list i j))
; => ((1 10) (2 11) (3 12))

(loop for x = 1 then (* 2 x) while (< x 100) collect x)
; => (1 2 4 8 16 32 64)

(loop for x = 5 repeat 2 collect x)
; => (5 5)

(loop for x in '(1 2 3) for y = (* x x) collect y)
; => (1 4 9)

(loop for x in '(1 2) and y in '(a b c) collect (list x y))
; => ((1 a) (2 b))

(loop for x = 1 then y and y = 2 then (+ x y) repeat 5 collect (list x y))
; => ((1 2) (2 3) (3 5) (5 8) (8 13))

(loop with a = 1 with b = (+ a 1) return (list a b))
; => (1 2)

(loop with a = 1 and b = 2 return (list a b))
; => (1 2)

(loop with (a b) = '(1 2) return (+ a b))
; => 3

(loop with x return x)
; => nil

(loop with x of-type fixnum return x)
; => 0

(loop with x fixnum = 5 return x)
; => 5

(loop repeat 3 collect 'x)
; => (x x x)

(loop repeat 0 collect 'x)
; => nil

(loop for x in '(1 2 3) sum x)
; => 6

(loop for x in '(1 nil 3) count x)
; => 2

(loop for x in '(3 1 2) maximize x)
; => 3

(loop for x in '(3 1 2) minimize x)
; => 1

(loop for x in nil maximize x)
; =! nil

(loop for x in '((1) (2 3)) append x)
; => (1 2 3)

(loop for x in '((1) (2 3) 4) append x)
; =! (1 2 3 . 4)

(loop for x in (list (list 1) (list 2 3)) nconc x)
; => (1 2 3)

(loop for x in '(1 2) collect x append (list x x))
; => (1 1 1 2 2 2)

(loop for x in '(1 2 3) collect x into a sum x into s finally (return (list a s)))
; => ((1 2 3) 6)

(loop for x in '(1 2 3 4) if (evenp x) collect x)
; => (2 4)

(loop for x in '(1 2 3 4) when (evenp x) collect x into e else collect x into o finally (return (list e o)))
; => ((2 4) (1 3))

(loop for x in '(1 2 3 4) unless (evenp x) collect x)
; => (1 3)

(loop for x in '(1 2 3) if (evenp x) collect x and collect (* 10 x) else collect 'odd end)
; => (odd 2 20 odd)

(loop for x in '(nil 2 3) when x return it)
; => 2

(loop for x in '(1 nil 2) when x collect it)
; => (1 2)

(loop for x in '(1 2 3 4 5) if (> x 2) if (evenp x) collect (list :even x) else collect (list :odd x))
; => ((:odd 3) (:even 4) (:odd 5))

(loop for x in '(2 4) always (evenp x))
; => t

(loop for x in '(2 5) always (evenp x))
; => nil

(loop for x in '(1 3) never (evenp x))
; => t

(loop for x in '(1 nil 3) thereis x)
; => 1

(loop for x in '(1 3) thereis (and (evenp x) x))
; => nil

(loop for x in '(1 2 3) while (< x 3) collect x)
; => (1 2)

(loop for x in '(1 2 3) until (= x 2) collect x)
; => (1)

(loop for x in '(1 2 3) do (if (= x 2) (return x)))
; => 2

(loop for x in '(1 2 3) when (= x 2) do (loop-finish) collect x)
; => (1)

(loop for x in '(1 2 3) do (when (= x 2) (loop-finish)) collect x)
; => (1)

(loop named foo for x in '(1 2) do (return-from foo x))
; => 1

(let ((r nil)) (loop initially (push 'i r) for x in '(1 2) do (push x r) finally (push 'f r)) (reverse r))
; => (i 1 2 f)

(let ((r nil)) (loop for x in '(1) do (push x r) (push 'b r)) r)
; => (b 1)

(let ((i 0)) (loop (incf i) (if (> i 3) (return i))))
; => 4

(loop for nil in '(1 2) collect 1)
; => (1 1)

(loop for (nil b) in '((1 2)) collect b)
; => (2)

(loop for x of-type integer from 1 to 2 collect x)
; => (1 2)

(loop for x fixnum in '(1 2) collect x)
; => (1 2)

(loop for i from 1 to 3 for x = (* i 2) then (* i 10) collect x)
; => (2 20 30)

(loop for x in '(a b) for i from 0 collect (cons i x))
; => ((0 . a) (1 . b))

(loop for i from 1 to 3 finally (return i))
; => 4

(loop for i from 1 to 3 sum i into s finally (return (* 2 s)))
; => 12

(loop for x in '(1 2 3) nconc (list x x))
; => (1 1 2 2 3 3)

(loop for x in '(1.5 2) sum x)
; => 3.5

(loop for x in '(1 2) sum x of-type float)
; =! 3.0

(loop for x in '(1 2 3) collecting x)
; => (1 2 3)

(loop as x in '(1 2) collect x)
; => (1 2)

(loop :for x :in '(1 2) :collect x)
; => (1 2)

(loop for x in '(1 2) for x in '(3 4) collect x)
; => error program-error

(loop for x from 1 to 3 collect x sum x)
; => error program-error

(loop for x being foo collect x)
; => error program-error

(loop collect)
; => error program-error

(loop for)
; => error program-error

(loop foo bar)
; => error program-error

(loop for i from 1 to 0 collect i)
; => nil

(loop for x in '(1 . 2) collect x)
; => error type-error

(loop for x on '(1 2 . 3) collect x)
; => ((1 2 . 3) (2 . 3))

(loop with a = 0 for x in '(1 2 3) do (setq a (+ a x)) finally (return a))
; => 6

(loop for x in '(1 2 3) for y in '(1 2) collect (list x y))
; => ((1 1) (2 2))

(let ((n 3)) (loop while (plusp n) do (decf n) collect n))
; => (2 1 0)

(loop for i below 3 do (print i) finally (return 'done))
; => done

(let ((fs (loop for i below 3 collect (let ((j i)) (lambda () j))))) (mapcar #'funcall fs))
; => (0 1 2)

(loop for x in '(5 2 8) for i from 0 maximize x into m minimize x into n finally (return (list m n i)))
; => (8 2 2)

(loop for i from 1 to 4 if (oddp i) do (princ "") and collect i)
; => (1 3)

(loop for i from 1 to 10 when (evenp i) sum i into evens else sum i into odds finally (return (values evens odds)))
; => 30 | 25

(loop-finish)
; => error program-error

;; tests that stand before an iteration clause are made before its variables step

(let ((q (list 1 2 3))) (loop until (null q) for x = (pop q) collect x))
; => (1 2 3)

(let ((q (list 1 2 3))) (loop while q for x = (pop q) for i from 0 collect (list i x)))
; => ((0 1) (1 2) (2 3))

(loop for i from 0 until (> i 3) for j = (* i i) collect j)
; => (0 1 4 9)

(loop while nil for x = (error "not reached") collect x)
; => nil

(let ((log nil)) (loop for x in '(1 2 3) while (< x 3) for y = (progn (push x log) x) sum y into s finally (return (list s log))))
; => (3 (2 1))
