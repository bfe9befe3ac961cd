"""grad, recompute and custom-vjp inside graphs, against jax and against themselves written out."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from reference_programs import compiled

import sexpgpu as sx
from sexpgpu.ir.graph import nodes_within
from sexpgpu.lowering.backend import open_backend

DEVICES = ["interp", "cpu"]
RNG = np.random.default_rng(5)


def arrays(*shapes: tuple[int, ...], dtype: str = "float64") -> list[np.ndarray]:
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


def close(got: Any, want: Any, tolerance: float = 1e-10) -> None:
    got, want = np.asarray(got), np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max())


def code_of(text: str, *given: np.ndarray, grad: bool = False) -> str:
    function = sx.function(text)
    with pytest.raises(sx.CompileError) as caught:
        (function.grad if grad else function)(*given)
    return caught.value.diagnostics[0].code.id


# -- grad ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_penalty(device: str) -> None:
    """The derivative by the weights of the norm of the derivative by the inputs (WGAN-GP)."""
    function = sx.function(
        """(lambda (x w v)
          (let ((critic (lambda (x) (sum (matmul (tanh (matmul x w)) v)))))
            (mean (square (- (norm (grad critic x) :axis 1) 1)))))""",
        device=device,
    )

    def penalty(x: Any, w: Any, v: Any) -> Any:
        g = jax.grad(lambda x: jnp.sum(jnp.tanh(x @ w) @ v))(x)
        return jnp.mean((jnp.linalg.norm(g, axis=1) - 1) ** 2)

    given = arrays((4, 3), (3, 5), (5, 1))
    with jax.enable_x64(True):
        value, wanted = compiled(jax.value_and_grad(penalty, (0, 1, 2)))(*given)
        close(function(*given), value)
    for got, want in zip(function.grad(*given), wanted, strict=True):
        close(got, want)


def test_what_is_captured_is_constant() -> None:
    """d/dw of w·w for the argument alone is w, not 2w."""
    w = np.float32(3)
    assert sx.function("(lambda (w) (grad (lambda (v) (* v w)) w))")(w) == 3
    assert sx.function("(lambda (w) (grad (lambda (v) (* v v)) w))")(w) == 6
    assert sx.function("(lambda (w) (grad (lambda (v) (* w w)) w))")(w) == 0


def test_fourth_derivative() -> None:
    text = "x^5"
    function = "(lambda (x) (* x x x x x))"
    for want in (5 * 1.5**4, 20 * 1.5**3, 60 * 1.5**2, 120 * 1.5):
        function = f"(lambda (x) (grad {function} x))"
        np.testing.assert_allclose(sx.function(function)(np.float64(1.5)), want, err_msg=text)


def test_arguments_may_be_lists() -> None:
    function = sx.function(
        "(lambda (x y) (grad (lambda (p z) (sum (* (first p) (second p) z))) (list x y) x))"
    )
    with pytest.raises(sx.CompileError):  # a list is no result of a function of arrays
        function(*arrays((2,), (2,)))
    function = sx.function(
        """(lambda (x y) (multiple-value-bind (p z)
             (grad (lambda (p z) (sum (* (first p) (second p) z))) (list x y) x)
             (values (first p) (second p) z)))"""
    )
    x, y = arrays((2,), (2,))
    for got, want in zip(function(x, y), (y * x, x * x, x * y), strict=True):
        close(got, want)


@pytest.mark.parametrize(
    "text, code",
    [
        ("(lambda (x) (grad (lambda (x) (* x x)) x))", "E-GRAD-002"),
        ("(lambda (x) (grad (lambda (n) (sum n)) (cast x :i32)))", "E-GRAD-003"),
        ("(lambda (x) (grad (lambda (x) :loss) x))", "E-FLOW-006"),
        ("(lambda (x) (grad (lambda (x) (sum x)) :x))", "E-FLOW-006"),
        ("(lambda (x) (grad (lambda (x) (sum (digamma x))) x) x)", "E-GRAD-001"),
        ("(lambda (x) (scan (lambda (c x) (values c x)) 0.0 (sum x)))", "E-SHAPE-005"),
        ("(lambda (x) (scan (lambda (c x) (values c x)) 0.0 x :length 5))", "E-SHAPE-001"),
        ("(lambda (x) (scan (lambda (c n) (values c n)) x nil))", "E-OP-001"),
        ("(lambda (x) (scan (lambda (c x) (list c c)) 0.0 x))", "E-FLOW-004"),
        ("(lambda (x) (scan (lambda (c x) (cast c :f64)) 0.0 x))", "E-FLOW-004"),
        ("(lambda (x) (scan (lambda (c x) (values c :y)) 0.0 x))", "E-FLOW-006"),
        ("(lambda (x) (scan (lambda (c x) c) (list :a) x))", "E-FLOW-006"),
        (
            "(lambda (x) (let ((kept nil)) (scan (lambda (c x) (setq kept x) c) 0.0 x) kept))",
            "E-FLOW-002",
        ),
        (
            "(lambda (x) (let ((k nil)) (scan (lambda (c x) (setq k x) c) 0.0 x) (sum k)))",
            "E-FLOW-002",
        ),
        (
            "(lambda (x) (funcall (custom-vjp (lambda (x) (values x x)) (lambda (r c) 1)) x))",
            "E-GRAD-005",
        ),
    ],
)
def test_refusals(text: str, code: str) -> None:
    assert code_of(text, np.ones(3, np.float32)) == code


def test_a_carry_of_another_type_names_both_places() -> None:
    with pytest.raises(sx.CompileError) as caught:
        sx.function("(lambda (x) (scan (lambda (c x) (concat (list c c))) (ones (list 2)) x))")(
            np.ones(3, np.float32)
        )
    (diagnostic,) = caught.value.diagnostics
    assert "f32 (2) before an iteration and f32 (4) after it" in diagnostic.headline
    told = [f"{note.text} {note.span.text if note.span else ''}" for note in diagnostic.notes]
    assert any("before" in line and "(ones (list 2))" in line for line in told)
    assert any("after" in line and "(concat (list c c))" in line for line in told)


# -- recompute ----------------------------------------------------------------------------------

BLOCKS = """(lambda (x w1 w2 w3)
  (let* ((block (lambda (h w)
                  (let ((n (/ (- h (mean h :axis 1 :keep t)) (std h :axis 1 :keep t))))
                    (values (+ h (matmul (gelu n) (matmul w (transpose w)))) (sum n)))))
         (total 0))
    (dolist (w (list w1 w2 w3) (+ (mean (square x)) total))
      (multiple-value-bind (y s) {call}
        (setq x y)
        (incf total (* s s))))))"""
BLOCKS = BLOCKS.replace("(gelu n)", "(* n (sigmoid n))")
PLAIN = BLOCKS.replace("{call}", "(funcall block x w)")
AGAIN = BLOCKS.replace("{call}", "(recompute block x w)")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_the_same_to_the_bit(dtype: str) -> None:
    given = [x.astype(jnp.dtype(dtype)) for x in arrays((3, 4), (4, 4), (4, 4), (4, 4))]
    plain, again = sx.function(PLAIN), sx.function(AGAIN)
    np.testing.assert_array_equal(plain(*given), again(*given))
    for a, b in zip(plain.grad(*given), again.grad(*given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_on_xla() -> None:
    given = arrays((3, 4), (4, 4), (4, 4), (4, 4))
    plain, again = sx.function(PLAIN, device="cpu"), sx.function(AGAIN, device="cpu")
    for a, b in zip(plain.grad(*given), again.grad(*given), strict=True):
        close(a, b)


def test_second_derivatives_through_recompute() -> None:
    given = arrays((3, 4), (4, 4), (4, 4), (4, 4))
    penalty = """(lambda (x a b c)
      (reduce #'+ (mapcar (lambda (g) (sum (square g)))
                          (multiple-value-list (grad {f} x a b c)))))"""
    plain, again = (sx.function(penalty.replace("{f}", f)) for f in (PLAIN, AGAIN))
    for a, b in zip(plain.grad(*given), again.grad(*given), strict=True):
        close(a, b)


def temporaries(text: str, *given: np.ndarray) -> int:
    function = sx.function(text)
    function._graph("grad", [sx.traced._type(a) for a in given])
    graph = function._last
    assert graph is not None
    backend: Any = open_backend("cpu")
    types = {name: value.type for name, value in graph.inputs.items()}
    compiled = backend.compile(lambda e, tree: e.call(graph, tree), [types], donate=())
    return compiled.memory()["temp"]


def test_the_memory_plan_shows_it() -> None:
    """Eight blocks of four [256, 512] tensors each: without, all are kept for the backward pass."""
    text = """(lambda (x w)
      (let ((block (lambda (h) (sin (* (tanh (* (sin h) (exp (cos h)))) w)))))
        (dotimes (i 8 (sum x)) (setq x {call}))))"""
    given = [np.ones((256, 512), np.float32), np.float32(1)]
    plain = temporaries(text.replace("{call}", "(funcall block (funcall block x))"), *given)
    again = temporaries(
        text.replace("{call}", "(recompute (lambda (h) (funcall block (funcall block h))) x)"),
        *given,
    )
    assert again < 0.75 * plain


@pytest.mark.parametrize("device", DEVICES)
def test_recompute_in_scan_and_scan_in_recompute(device: str) -> None:
    def step(cell: str) -> str:
        return f"""(lambda (x w)
          (let ((cell (lambda (h x) (tanh (+ (* h w) (sin x))))))
            (sum (square {cell}))))"""

    given = arrays((5, 3), (3,))
    forms = (
        "(scan cell (zeros (list 3) :dtype (dtype x)) x)",
        "(scan (lambda (h x) (recompute cell h x)) (zeros (list 3) :dtype (dtype x)) x)",
        "(recompute (lambda (x) (scan cell (zeros (list 3) :dtype (dtype x)) x)) x)",
    )
    wanted, *others = (sx.function(step(f), device=device).grad(*given) for f in forms)
    for found in others:
        for a, b in zip(found, wanted, strict=True):
            close(a, b)


def test_what_is_no_tensor_passes_through_recompute() -> None:
    function = sx.function(
        """(lambda (x) (multiple-value-bind (y name)
             (recompute (lambda (x by) (values (* x by) :twice)) x 2)
             (assert (eq name :twice))
             y))"""
    )
    np.testing.assert_array_equal(function(np.float32([1, 2])), np.float32([2, 4]))


# -- custom-vjp ---------------------------------------------------------------------------------

CLIPPED = """(custom-vjp (lambda (x w) (values (* (exp x) w) (list x w)))
                         (lambda (r dy)
                           (destructuring-bind (x w) r
                             (values (* (clip dy -1 1) w (exp x)) (* dy (exp x))))))"""


@jax.custom_vjp
def clipped(x: Any, w: Any) -> Any:
    return jnp.exp(x) * w


def _backward(r: Any, dy: Any) -> Any:
    x, w = r
    return jnp.clip(dy, -1, 1) * w * jnp.exp(x), dy * jnp.exp(x)


clipped.defvjp(lambda x, w: (jnp.exp(x) * w, (x, w)), _backward)


@pytest.mark.parametrize("device", DEVICES)
def test_custom_derivatives_against_jax(device: str) -> None:
    function = sx.function(
        f"(lambda (x w) (sum (square (funcall {CLIPPED} (sin x) w))))", device=device
    )
    given = arrays((4,), (4,))
    with jax.enable_x64(True):

        def loss(x: Any, w: Any) -> Any:
            return jnp.sum(clipped(jnp.sin(x), w) ** 2)

        value, wanted = compiled(jax.value_and_grad(loss, (0, 1)))(*given)
        close(function(*given), value)
    for got, want in zip(function.grad(*given), wanted, strict=True):
        close(got, want)


def test_custom_derivatives_twice_and_in_scan() -> None:
    """The derivative's own derivative is that of the backward function, as in jax."""
    inner = f"""(lambda (x w) (sum (nth-value 1 (scan (lambda (c x)
                   (let ((y (funcall {CLIPPED} (* c x) w))) (values y (* y y))))
                   (ones (list 2) :dtype (dtype x)) x))))"""
    function = sx.function(f"""(lambda (x w) (multiple-value-bind (a b) (grad {inner} x w)
                               (+ (sum (square a)) (sum (square b)))))""")

    def loss(x: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            y = clipped(c * x, w)
            return y, y * y

        return jnp.sum(lax.scan(step, jnp.ones(2), x)[1])

    def penalty(x: Any, w: Any) -> Any:
        a, b = jax.grad(loss, (0, 1))(x, w)
        return jnp.sum(a**2) + jnp.sum(b**2)

    given = [x * 0.5 for x in arrays((3, 2), (2,))]
    with jax.enable_x64(True):
        wanted = compiled(jax.grad(penalty, (0, 1)))(*given)
    for got, want in zip(function.grad(*given), wanted, strict=True):
        close(got, want, 1e-9)


def test_nothing_of_it_is_left_when_gradients_are_taken() -> None:
    function = sx.function(f"(lambda (x w) (sum (funcall {CLIPPED} x w)))")
    function.grad(*arrays((4,), (4,)))
    assert function._last is not None
    ops = {node.op for node in nodes_within(function._last)}
    assert "custom-vjp" not in ops
    assert "reshape" not in ops


def test_straight_through() -> None:
    """Rounds forward, and passes the gradient as if it had not: no residuals."""
    function = sx.function(
        """(lambda (x) (sum (* x (funcall (custom-vjp (lambda (x) (values (round x) nil))
                                                     (lambda (none dy) dy)) x))))"""
    )
    x = np.float32([0.4, 1.6, -2.2])
    np.testing.assert_allclose(function.grad(x), np.round(x) + x)


def test_captured_tensors_that_need_a_gradient_are_refused() -> None:
    text = """(lambda (x w) (sum (funcall (custom-vjp (lambda (x) (values (* x {w}) x))
                                          (lambda (x dy) (* dy x))) x)))"""
    given = arrays((3,), (3,))
    assert code_of(text.replace("{w}", "w"), *given, grad=True) == "E-GRAD-004"
    cut = sx.function(text.replace("{w}", "(stop-gradient w)"))
    np.testing.assert_array_equal(cut.grad(*given)[1], np.zeros(3))
