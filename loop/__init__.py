"""The fixed training loop and all it reads and writes. Imported as `sexpgpu.loop`, nothing else."""

if __name__ != "sexpgpu.loop":
    raise ImportError("import sexpgpu.loop: under its bare name registries would be filled twice")
