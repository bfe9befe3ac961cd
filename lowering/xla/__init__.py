"""The lowering through jax.lax: one jit trace a step, one rule an op, explicit dtypes always."""
