"""`python -m sexpgpu`: the command line."""

from sexpgpu.cli.main import main

main()
