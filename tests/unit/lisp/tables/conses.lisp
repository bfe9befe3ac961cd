;;; Forms about conses and lists, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(list 1 2 3)
; => (1 2 3)

(list)
; => nil

(list* 1 2 '(3 4))
; => (1 2 3 4)

(list* 1 2 3)
; => (1 2 . 3)

(cons 1 2)
; => (1 . 2)

(car nil)
; => nil

(car 1)
; => error type-error

(cdr '(1 . 2))
; => 2

(caddr '(1 2 3))
; => 3

(cdddr '(1 2 3))
; => nil

(cadr '(1 . 2))
; => error type-error

(caadr '((1) (2 3)))
; => 2

(first '(1 2))
; => 1

(tenth '(1 2 3 4 5 6 7 8 9 10))
; => 10

(third '(1))
; => nil

(rest '(1 2 3))
; => (2 3)

(nth 2 '(a b c))
; => c

(nth 5 '(a b c))
; => nil

(nth -1 '(a b c))
; => error type-error

(nthcdr 2 '(a b c))
; => (c)

(nthcdr 4 '(a b . c))
; => error type-error

(last '(1 2 3))
; => (3)

(last '(1 2 3) 2)
; => (2 3)

(last '(1 2 . 3) 0)
; => 3

(last '(1 2 3) 10)
; => (1 2 3)

(last nil)
; => nil

(butlast '(1 2 3))
; => (1 2)

(butlast '(1 2 3) 2)
; => (1)

(butlast '(1 2 . 3) 1)
; => (1)

(butlast '(1 2) 5)
; => nil

(nbutlast (list 1 2 3) 1)
; => (1 2)

(append '(1) '(2) '(3 . 4))
; => (1 2 3 . 4)

(append)
; => nil

(append 'a)
; => a

(append '(1) 2)
; => (1 . 2)

(append nil nil)
; => nil

(append '(1 . 2) '(3))
; => error type-error

(nconc (list 1) nil (list 2) (list 3))
; => (1 2 3)

(nconc nil (list 1) 2)
; => (1 . 2)

(revappend '(1 2 3) '(4))
; => (3 2 1 4)

(nreconc (list 1 2 3) '(4))
; => (3 2 1 4)

(make-list 3 :initial-element 'x)
; => (x x x)

(make-list 0)
; => nil

(make-list -1)
; => error type-error

(copy-list '(1 2 . 3))
; => (1 2 . 3)

(copy-tree '((1 (2)) . 3))
; => ((1 (2)) . 3)

(copy-alist '((a . 1) nil (b . 2)))
; => ((a . 1) nil (b . 2))

(list-length '(1 2 3))
; => 3

(list-length '(1 . 2))
; => error type-error

(listp nil)
; => t

(consp nil)
; => nil

(atom nil)
; => t

(endp nil)
; => t

(endp 1)
; => error type-error

(ldiff '(1 2 3 . 4) 4)
; => (1 2 3)

(ldiff '(1 2 3) nil)
; => (1 2 3)

(tailp nil '(1 2))
; => t

(tailp 3 '(1 2 . 3))
; => t

(member 2 '(1 2 3))
; => (2 3)

(member 2.0 '(1 2 3))
; => nil

(member 2.0 '(1 2 3) :test #'=)
; => (2 3)

(member 2 '(1 2 3) :test-not #'eql)
; => (1 2 3)

(member 'c '((a) (c)) :key #'car)
; => ((c))

(member 1 '(2 . 3))
; => error type-error

(member 1 nil :test #'eql :key nil)
; => nil

(member 5 '(1 6 3) :test #'<)
; => (6 3)

(member-if #'evenp '(1 2 3))
; => (2 3)

(member-if-not #'oddp '(1 2 3) :key #'1+)
; => (1 2 3)

(assoc 'b '((a . 1) nil (b . 2)))
; => (b . 2)

(assoc 2 '((1 . a) (4 . b)) :test #'<)
; => (4 . b)

(assoc "B" '(("a" . 1) ("b" . 2)) :test #'string-equal)
; => ("b" . 2)

(assoc 'a '(a))
; => error type-error

(assoc-if #'evenp '((1 . a) (2 . b)))
; => (2 . b)

(assoc-if-not #'evenp '((2 . a) (3 . b)))
; => (3 . b)

(rassoc 'b '((1 . a) (2 . b)))
; => (2 . b)

(rassoc-if #'symbolp '((1 . 2) (3 . c)))
; => (3 . c)

(acons 'a 1 nil)
; => ((a . 1))

(pairlis '(a b) '(1 2) '((c . 3)))
; => ((b . 2) (a . 1) (c . 3))

(getf '(:a 1 :b 2) :b)
; => 2

(getf '(:a 1) :c 'none)
; => none

(getf '(:a) :b)
; => error type-error

(get-properties '(a 1 b 2 c 3) '(c b))
; => b | 2 | (b 2 c 3)

(adjoin 1 '(2 3))
; => (1 2 3)

(adjoin 2 '(2 3))
; => (2 3)

(adjoin '(a 2) '((a 1)) :key #'car)
; => ((a 1))

(intersection '(1 2 3) '(2 3 4))
; => (3 2)

(set-difference '(1 2 3) '(2))
; => (3 1)

(subsetp '(1 2) '(3 2 1))
; => t

(subsetp '(1 5) '(3 2 1))
; => nil

(sort (union '(1 2) '(2 3)) #'<)
; => (1 2 3)

(sort (set-exclusive-or '(1 2 3) '(2 3 4)) #'<)
; => (1 4)

(sort (set-exclusive-or '(1 2 3) '(2 3 4) :key #'1+ :test #'=) #'<)
; => (1 4)

(union '("a") '("b" "A") :test #'string-equal)
; => ("b" "a")

(intersection '(1 2) '(3 4) :test #'< :test-not #'<)
; =! error program-error

(mapcar #'+ '(1 2 3) '(10 20))
; => (11 22)

(mapcar #'car '((1) (2)))
; => (1 2)

(mapcar 'list '(1) nil)
; => nil

(maplist #'length '(1 2 3))
; => (3 2 1)

(mapc #'list '(1 2))
; => (1 2)

(mapl #'list '(1 2) '(3))
; => (1 2)

(mapcan #'list '(1 2) '(3 4))
; => (1 3 2 4)

(mapcon #'copy-list '(1 2 3))
; => (1 2 3 2 3 3)

(mapcan (lambda (x) (if (evenp x) (list x))) '(1 2 3 4))
; => (2 4)

(tree-equal '(1 (2)) '(1 (2)))
; => t

(tree-equal '(1 (2)) '(1 (2 3)))
; => nil

(tree-equal '("a") '("A") :test #'string-equal)
; => t

(subst 'x 1 '(1 (1 2) . 1))
; => (x (x 2) . x)

(subst-if 0 #'numberp '(a 1 (b 2)))
; => (a 0 (b 0))

(subst-if-not 0 #'consp '(a (b)))
; => (0 (0 . 0) . 0)

(sublis '((a . 1) (b . 2)) '(a (b c) . a))
; => (1 (2 c) . 1)

(nsubst 'x 'y (list 'y (list 'y)))
; => (x (x))

(tree-equal 1 1)
; => t

(member)
; => error program-error

(member 1 '(1) :foo 2)
; => error program-error

(member 1 '(1) :foo 2 :allow-other-keys t)
; => (1)

(let ((x (list 1 2 3))) (setf (cadr x) 'b) x)
; => (1 b 3)

(let ((x (list 1 2 3))) (setf (nth 2 x) 'c) x)
; => (1 2 c)

(let ((x (list 1 2 3))) (setf (cddr x) nil) x)
; => (1 2)

(let ((x (list 1 2 3))) (setf (third x) 9 (first x) 7) x)
; => (7 2 9)

(let ((x (list :a 1))) (setf (getf x :b) 2) (getf x :b))
; => 2

(let ((x (list 1 2))) (rplaca x 5) (rplacd x 6) x)
; => (5 . 6)
