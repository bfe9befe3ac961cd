;;; Forms about numbers, and what they print.
;;; `=>` is checked against SBCL too; `=!` is what differs from SBCL on purpose.

(+ 1 2)
; => 3

(+)
; => 0

(+ 1/2 1/3)
; => 5/6

(+ 1 2.5)
; => 3.5

(+ 1/2 0.5)
; => 1.0

(- 5)
; => -5

(- 5 1 1)
; => 3

(* 2 3 4)
; => 24

(*)
; => 1

(/ 1 3)
; => 1/3

(/ 6 3)
; => 2

(/ 2)
; => 1/2

(/ 0.5)
; => 2.0

(/ 1 0)
; => error division-by-zero

(/ 1.0 0)
; => error division-by-zero

(/ 4 2.0)
; => 2.0

(+ 'a 1)
; => error type-error

(+ "a" 1)
; => error type-error

(- nil)
; => error type-error

(1+ 5)
; => 6

(1- 5)
; => 4

(= 1 1.0)
; => t

(= 1/2 0.5)
; => t

(= 1 1 2)
; => nil

(/= 1 2 3)
; => t

(/= 1 2 1)
; => nil

(< 1 2 3)
; => t

(< 1 3 2)
; => nil

(<= 1 1 2)
; => t

(> 3 2 1)
; => t

(>= 3 3 1)
; => t

(< 1 'a)
; => error type-error

(= 'a 1)
; => error type-error

(= (expt 2 60) (float (expt 2 60)))
; => t

(= (1+ (expt 2 60)) (float (expt 2 60)))
; => nil

(max 1 3 2)
; => 3

(max 1 2.0)
; => 2.0

(min 1 2.0)
; => 1

(min 3 1/2)
; => 1/2

(max 'a)
; => error type-error

(abs -5)
; => 5

(abs -1/2)
; => 1/2

(abs -2.5)
; => 2.5

(mod 7 3)
; => 1

(mod -7 3)
; => 2

(mod 7 -3)
; => -2

(rem -7 3)
; => -1

(mod 5.5 2)
; => 1.5

(rem -5.5 2)
; => -1.5

(mod 1/2 1/3)
; => 1/6

(mod 5 0)
; => error division-by-zero

(floor 7 2)
; => 3 | 1

(floor -7 2)
; => -4 | 1

(floor 2.5)
; => 2 | 0.5

(floor -2.5)
; => -3 | 0.5

(ceiling 7 2)
; => 4 | -1

(ceiling -7 2)
; => -3 | -1

(ceiling 2.1)
; => 3 | -0.8999999999999999

(truncate -7 2)
; => -3 | -1

(truncate -2.7)
; => -2 | -0.7000000000000002

(truncate 7 -2)
; => -3 | 1

(round 5/2)
; => 2 | 1/2

(round 7/2)
; => 4 | -1/2

(round 2.5)
; => 2 | 0.5

(round -2.5)
; => -2 | -0.5

(round 7 2)
; => 4 | -1

(round -7 2)
; => -4 | 1

(round 5 -2)
; => -2 | 1

(round 2.6)
; => 3 | -0.3999999999999999

(round 10 4)
; => 2 | 2

(floor 5.3 0.1)
; => 52 | 0.09999999999999964

(round 5.5 2)
; => 3 | -0.5

(ceiling 5.5 -2)
; => -2 | 1.5

(floor 1/2)
; => 0 | 1/2

(floor 7/2 1/3)
; => 10 | 1/6

(ffloor 7.0 2)
; => 3.0 | 1.0

(ffloor 7.5 2)
; => 3.0 | 1.5

(fceiling 7.5)
; => 8.0 | -0.5

(ftruncate -7.5)
; => -7.0 | -0.5

(fround 2.5)
; => 2.0 | 0.5

(floor 1 0)
; => error division-by-zero

(floor 5 2.0)
; => 2 | 1.0

(truncate 1d20)
; => 100000000000000000000 | 0.0

(gcd 12 18)
; => 6

(gcd)
; => 0

(gcd -4 6)
; => 2

(lcm 4 6)
; => 12

(lcm)
; => 1

(lcm 0 3)
; => 0

(expt 2 10)
; => 1024

(expt 2 -3)
; => 1/8

(expt 0 0)
; => 1

(expt 0.0 0)
; => 1.0

(expt 2.0 3)
; => 8.0

(expt 1/2 3)
; => 1/8

(expt 2/3 -2)
; => 9/4

(expt 2 100)
; => 1267650600228229401496703205376

(expt -8 3)
; => -512

(expt 4 0.5)
; => 2.0

(expt 0 3)
; => 0

(expt 1 0.5)
; => 1.0

(exp 0.0)
; => 1.0

(exp 1.0)
; => 2.718281828459045

(exp 1.5)
; => 4.4816890703380645

(log 1.0)
; => 0.0

(log 100.0 10)
; => 2.0

(log 8.0 2)
; => 3.0

(log 2.5)
; => 0.9162907318741551

(sqrt 16.0)
; => 4.0

(sqrt 2.0)
; => 1.4142135623730951

(sqrt 0.25)
; => 0.5

(isqrt 17)
; => 4

(isqrt -1)
; => error type-error

(sin 0.0)
; => 0.0

(sin 1.0)
; => 0.8414709848078965

(cos 1.0)
; => 0.5403023058681398

(tan 0.5)
; => 0.5463024898437905

(asin 0.5)
; => 0.5235987755982989

(acos 0.5)
; => 1.0471975511965979

(atan 1.0)
; => 0.7853981633974483

(atan 1.0 -1.0)
; => 2.356194490192345

(atan 1.0 2)
; => 0.4636476090008061

(sinh 1.0)
; => 1.1752011936438014

(cosh 1.0)
; => 1.5430806348152437

(tanh 0.5)
; => 0.46211715726000974

(asinh 1.0)
; => 0.881373587019543

(acosh 2.0)
; => 1.3169578969248166

(atanh 0.5)
; => 0.5493061443340548

(zerop 0)
; => t

(zerop 0.0)
; => t

(zerop -0.0)
; => t

(zerop 'a)
; => error type-error

(plusp 1/2)
; => t

(minusp -0.0)
; => nil

(minusp -1)
; => t

(evenp 4)
; => t

(evenp 4.0)
; => error type-error

(oddp -3)
; => t

(numberp 1/2)
; => t

(numberp 'a)
; => nil

(integerp 1.0)
; => nil

(rationalp 1/2)
; => t

(rationalp 1.0)
; => nil

(floatp 1.0)
; => t

(realp 1)
; => t

(complexp 1)
; => nil

(float 1/3 1.0)
; => 0.3333333333333333

(float 3 1.0)
; => 3.0

(rational 0.5)
; => 1/2

(rational 0.1)
; => 3602879701896397/36028797018963968

(rationalize 0.1)
; => 1/10

(rationalize 0.333)
; => 333/1000

(rationalize -2.5)
; => -5/2

(numerator 4/6)
; => 2

(denominator 4/6)
; => 3

(numerator 5)
; => 5

(numerator 1.0)
; => error type-error

(signum -5)
; => -1

(signum 0)
; => 0

(signum -2.5)
; => -1.0

(signum 3/4)
; => 1

(ash 1 10)
; => 1024

(ash -1 -5)
; => -1

(ash 1024 -3)
; => 128

(ash 5 0)
; => 5

(ash 1.0 2)
; => error type-error

(logand 12 10)
; => 8

(logior 12 10)
; => 14

(logxor 12 10)
; => 6

(lognot 5)
; => -6

(logand)
; => -1

(logior)
; => 0

(logand -1 5)
; => 5

(logeqv 5 3)
; => -7

(logandc1 5 3)
; => 2

(logandc2 5 3)
; => 4

(lognand 5 3)
; => -2

(lognor 5 3)
; => -8

(logorc1 5 3)
; => -5

(logorc2 5 3)
; => -3

(logbitp 2 4)
; => t

(logbitp 70 -1)
; => t

(logcount 255)
; => 8

(logcount -8)
; => 3

(logtest 1 2)
; => nil

(integer-length 255)
; => 8

(integer-length -256)
; => 8

(integer-length 0)
; => 0

(ldb (byte 4 4) 255)
; => 15

(ldb (byte 8 2) -1)
; => 255

(dpb 3 (byte 2 1) 0)
; => 6

(mask-field (byte 4 2) 255)
; => 60

(deposit-field 255 (byte 4 2) 0)
; => 60

(ldb-test (byte 1 1) 2)
; => t

(byte-size (byte 3 4))
; => 3

(boole boole-xor 12 10)
; => 6

(decode-float 0.5)
; => 0.5 | 0 | 1.0

(decode-float -3.0)
; => 0.75 | 2 | -1.0

(integer-decode-float 1.0)
; => 4503599627370496 | -52 | 1

(scale-float 1.5 4)
; => 24.0

(float-sign -2.0)
; => -1.0

(float-sign -2.0 3.0)
; => -3.0

(float-radix 1.0)
; => 2

(float-digits 1.0)
; => 53

(float-precision 1.0)
; => 53

most-positive-fixnum
; => 4611686018427387903

most-negative-fixnum
; => -4611686018427387904

pi
; => 3.141592653589793

1e10
; => 1.0e10

1.5e-5
; => 1.5e-5

123456.789
; => 123456.789

1234567.0
; => 1234567.0

12345678.0
; => 1.2345678e7

0.001
; => 0.001

0.0001
; => 1.0e-4

1e100
; => 1.0e100

-0.0
; => -0.0

1e-10
; => 1.0e-10

100.0
; => 100.0

1e7
; => 1.0e7

123456789012345680.0
; => 1.2345678901234568e17

1/3
; => 1/3

-7/14
; => -1/2

(* 1.0 0)
; => 0.0

(+ 0.1 0.2)
; => 0.30000000000000004

(- 0.0)
; => -0.0

(* 99999999999 99999999999)
; => 9999999999800000000001

(- (expt 10 30) 1)
; => 999999999999999999999999999999

(floor (expt 10 30) 7)
; => 142857142857142857142857142857 | 1

(eql 1 1.0)
; => nil

(eql 0.0 -0.0)
; => nil

(eql 1/2 2/4)
; => t

(eql (expt 10 30) (expt 10 30))
; => t

(equal 1.0 1.0)
; => t

(equalp 1 1.0)
; => t

(equalp "Abc" "aBC")
; => t

(equalp #(1 2) #(1.0 2))
; => t

(equal "a" "a")
; => t

(equal #(1) #(1))
; => nil

(equal '(1 (2 "x")) '(1 (2 "x")))
; => t

(equalp '(1 #\a) '(1.0 #\A))
; => t

(equal "Abc" "abc")
; => nil

(eq 'a 'a)
; => t

(* 1e200 1e200)
; => error arithmetic-error

(exp 1000.0)
; => error arithmetic-error

(random 1)
; => 0

(random -1)
; => error type-error

(random 0)
; => error type-error

(integerp (random 10))
; => t

(<= 0 (random 1.0) 1)
; => t
