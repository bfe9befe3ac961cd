"""Tracing: tensors as Lisp values, and the tensor functions, which append nodes to a graph.

Knows the Lisp and the ops; nothing of run files, passes or backends.
"""
