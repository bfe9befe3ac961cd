"""Flags that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class PathText(click.types.StringParamType):
    """A text that names a file or folder, or may: a shell completes it as one."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


PATH = PathText()

json_flag = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def pairs(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """`NAME=TEXT` words as a dictionary; of one name the last wins."""
    found: dict[str, str] = {}
    for word in values:
        name, sign, text = word.partition("=")
        if not sign or not name.strip():
            raise click.BadParameter(
                f"{word!r} is not of the form {parameter.metavar}", context, parameter
            )
        found[name.strip()] = text
    return found


DEVICES = ("auto", "cuda", "cpu", "interp")


def device_flag(
    purpose: str, devices: tuple[str, ...] = DEVICES
) -> Callable[[Decorated], Decorated]:
    """`--device DEVICE`; `purpose` is the sentence of its help."""
    return click.option(
        "--device",
        type=click.Choice(devices),
        envvar="SEXPGPU_DEVICE",
        default="auto",
        show_default=True,
        help=f"{purpose} [SEXPGPU_DEVICE]",
    )


limit_flag = click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=N",
    callback=pairs,
    help="Raise a limit of evaluation: fuel=100000000. Repeatable.",
)


def selection_flags(command: Decorated) -> Decorated:
    """`--variant NAME` (`variants`: tuple) and `--set KNOB=VALUE` (`knobs`: dict of texts)."""
    variant = click.option(
        "--variant",
        "variants",
        multiple=True,
        metavar="NAME",
        shell_complete=_complete_variants,
        help="Select a declared variant. Repeatable; the later wins.",
    )
    knob = click.option(
        "--set",
        "knobs",
        multiple=True,
        metavar="KNOB=VALUE",
        callback=pairs,
        shell_complete=_complete_knobs,
        help="Give a knob a value. Repeatable; wins over variants.",
    )
    return variant(knob(command))


def _declared(context: click.Context) -> Any:
    """The declarations of the file named so far; None when they cannot be read."""
    from sexpgpu.cli.inputs import declarations
    from sexpgpu.diagnostics.model import SxError

    file: Any = context.params.get("file") or next(iter(context.params.get("files") or ()), None)
    if file is None:
        # click gives up on a line whose last option has no value yet: look at the words themselves
        words = os.environ.get("COMP_WORDS", "").split()
        file = next((word for word in words if word.endswith(".sx")), None)
    if not isinstance(file, str) or file == "-":
        return None
    try:
        return declarations(file)
    except (SxError, OSError):
        return None  # a completion has no place to show a diagnostic


def _complete_variants(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    del parameter
    declared = _declared(context)
    return [] if declared is None else [n for n in declared.variants if n.startswith(incomplete)]


def _complete_knobs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    del parameter
    declared = _declared(context)
    return [] if declared is None else [f"{n}=" for n in declared.knobs if n.startswith(incomplete)]
