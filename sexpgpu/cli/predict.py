"""`sexpgpu predict`: the trained model on records, from a file or standard input to one or the
other."""

from __future__ import annotations

import sys
from typing import Any

import click

from sexpgpu.cli import output
from sexpgpu.cli.inputs import document_input, document_of_run
from sexpgpu.cli.options import PATH, device_flag, json_flag, limit_flag, selection_flags


@click.command("predict")
@click.argument("file", metavar="FILE", type=PATH)
@click.option(
    "--checkpoint",
    metavar="C",
    type=PATH,
    help="A checkpoint, a run (its newest whole one), or RUN@STEP, RUN@best. Default: FILE, "
    "where that is a run or a checkpoint.",
)
@click.option(
    "--input",
    "given",
    metavar="DATA",
    type=PATH,
    default="-",
    help="An .npz or .json file, or - (JSON).",
)
@click.option(
    "--output",
    "target",
    metavar="OUT",
    type=PATH,
    default="-",
    help="An .npz or .json file, or - (JSON).",
)
@click.option("--function", "function", metavar="NAME", help="Another function in predict's place.")
@click.option(
    "--weights",
    type=click.Choice(("averaged", "raw")),
    default="averaged",
    show_default=True,
    help="Averaged where the optimizer keeps an average, or as they are trained.",
)
@device_flag("Where to compute.")
@selection_flags
@json_flag
@limit_flag
def command(
    file: str,
    checkpoint: str | None,
    given: str,
    target: str,
    function: str | None,
    weights: str,
    device: str,
    variants: tuple[str, ...],
    knobs: dict[str, str],
    as_json: bool,
    limits: dict[str, str],
) -> int:
    """The contract function `predict` of FILE (default: the model on prepare's first value) with
    the parameters of a checkpoint, on records. DATA holds the fields of the training loader that
    the prediction reads: arrays [records, …] in an .npz, or as JSON {"x": [record, …]} or
    [{"x": …}, …]. OUT gets the array `out`, or `out0`, `out1`, ….

    \b
    sexpgpu predict digits.sx --checkpoint runs/digits-1f0c22aa --input new.npz --output logits.npz
    echo '{"x": [[10.0]]}' | sexpgpu predict runs/line-5eb63bbb
    """
    chosen = checkpoint or (file if document_of_run(file) is not None else None)
    if chosen is None:
        raise click.UsageError(f"say with whose parameters: --checkpoint RUN (FILE is {file})")
    if file == "-" and given == "-":
        raise click.UsageError("standard input can be read only once: name FILE or --input")
    for option, name in (("--input", given), ("--output", target)):
        if name != "-" and not name.endswith((".npz", ".json")):
            raise click.UsageError(f"{option} takes an .npz or .json file, or -: not {name}")
    document, warnings = document_input(
        file, variants, knobs, limits, "predict" if function is None else function
    )
    output.show(warnings)
    from sexpgpu.loop import exchange
    from sexpgpu.loop.predict import Predictor
    from sexpgpu.loop.weights import model_for

    model = model_for(document, chosen, weights)
    found = Predictor(document, model, device)(_records(given))
    arrays = exchange.outputs_of(found)
    if target.endswith(".npz"):
        exchange.write_npz(target, arrays)
    else:
        text = output.json_text(exchange.as_json(arrays), lines=True)
        if target == "-":
            output.result(text)
            return 0
        with open(target, "w", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if as_json:
        output.json_result({"output": target, "shapes": shapes})
    else:
        said = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        output.result(f"{target}: {said}")
    return 0


def _records(name: str) -> dict[str, Any]:
    """Records by field from a file or standard input."""
    from sexpgpu.loop import exchange

    if name.endswith(".npz"):
        return exchange.read_npz(name)
    if name == "-":
        if sys.stdin.isatty():
            raise click.UsageError("name the records: --input DATA, or give JSON on standard input")
        return exchange.read_json(sys.stdin.buffer.read(), "<stdin>")
    with open(name, "rb") as stream:
        return exchange.read_json(stream.read(), name)
