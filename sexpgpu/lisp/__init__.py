"""The Common Lisp of sexpgpu files: values, evaluator, builtins. Knows nothing of tensors."""
