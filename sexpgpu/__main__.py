"""`python -m sexpgpu`, and the command `sexpgpu`: an interrupt while modules are loaded ends the
process as it ends any other; `main` takes it over."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from sexpgpu.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
