"""The reference lowering: IR graphs on plain NumPy, written to be read.

Shares no code with `xla`, so that each checks the other.
"""
