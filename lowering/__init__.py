"""Running IR graphs: on NumPy (`interp`) and through jax.lax (`xla`), behind one protocol.

Imports neither numpy nor jax itself: `open_backend` (in `backend`) loads what a device needs.
"""

if __name__ == "lowering":
    raise ImportError("import sexpgpu.lowering: a second copy would fill its registries twice")
