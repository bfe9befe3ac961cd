"""The state of the one evaluation that runs: fuel, call stack, limits, output, handlers.

There is one STATE a process (evaluations run one after the other). The call stack holds the Site
of each active Lisp function's call; `STATE.site` is the Site of the call being made, set by the
compiled call node right before it calls, so a builtin finds its own call site there.
Knows nothing of the compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import repeat
from math import inf
from operator import length_hint
from time import monotonic
from typing import TYPE_CHECKING, Any

from sexpgpu.source import NOWHERE, Origin, Span

if TYPE_CHECKING:
    from sexpgpu.lisp.values import Module

CHUNK = 16_384  # fuel handed out at once: the clock and the memory are looked at in between
CELL = 8  # bytes of an element of a vector
CONS = 48  # bytes of a cons

NO_TICKETS: Iterator[None] = repeat(None, 0)


class Site:
    """A place in the program: where the form is, and the macro expansions around it.

    `place` begins with (source, start, end), or is None. `expansions` is (macro name, span of the
    use) pairs, innermost first.
    """

    __slots__ = ("_span", "expansions", "place")

    def __init__(
        self,
        place: tuple[Any, ...] | None,
        expansions: tuple[tuple[str, Span | None], ...] = (),
    ) -> None:
        self.place = place
        self.expansions = expansions
        self._span: Span | None = None

    @property
    def span(self) -> Span | None:
        """The span of the form, made when it is first asked for."""
        span, place = self._span, self.place
        if span is None and place is not None:
            span = self._span = Span(place[0], place[1], place[2])
        return span


NO_SITE = Site(None)


class Limits:
    """What one evaluation may use.

    fuel      evaluation steps (Lisp calls and loop iterations, and the steps of long builtins)
    depth     nested Lisp calls
    memory    bytes allocated by builtins that allocate many at once, in total
    objects   live Python objects (conses and their kin)
    output    characters written
    seconds   wall time
    nesting   depth of parentheses that the reader takes; forms may be ten times as deep
    expansions  nested macro expansions of one form
    """

    __slots__ = (
        "depth",
        "expansions",
        "fuel",
        "memory",
        "nesting",
        "objects",
        "output",
        "seconds",
    )

    def __init__(
        self,
        fuel: int = 50_000_000,
        depth: int = 10_000,
        memory: int = 500_000_000,
        objects: int = 20_000_000,
        output: int = 10_000_000,
        seconds: float = 30.0,
        nesting: int = 1_000,
        expansions: int = 1_000,
    ) -> None:
        self.fuel = fuel
        self.depth = depth
        self.memory = memory
        self.objects = objects
        self.output = output
        self.seconds = seconds
        self.nesting = nesting
        self.expansions = expansions


class Sink:
    """The text sink behind *standard-output*: keeps what was written, knows the column."""

    __slots__ = ("column", "parts")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.column = 0

    def write(self, text: str) -> None:
        """Write text; raises E-LIMIT when the evaluation has written too much."""
        if not text:
            return
        STATE.charge_output(len(text))
        self.parts.append(text)
        newline = text.rfind("\n")
        self.column = self.column + len(text) if newline < 0 else len(text) - newline - 1

    def take(self) -> str:
        """What was written since the last call."""
        text = "".join(self.parts)
        self.parts.clear()
        return text


class State:
    """See the module's docstring. `fuel` is what is left of the chunk at hand; `reserve` the rest.
    A chunk is never more than the calls that may still nest: each takes one, so that the depth has
    to be looked at only where a chunk is used up. `tickets` are a part of the chunk, taken out in
    advance: the calls of hot code take one each, which is quicker than to count down.

    handlers   the active handler clusters: (cluster, outer ones) or () (lisp.signalling)
    restarts   the active restarts, likewise
    module     the module whose forms are being read or evaluated
    output     the text sink of *standard-output* when no stream is bound to it
    random     the seeded generator of `random` (made when first asked)
    """

    __slots__ = (
        "cleanup",
        "deadline",
        "depth",
        "fuel",
        "gensym",
        "handlers",
        "limits",
        "memory",
        "module",
        "objects_at",
        "objects_before",
        "output",
        "output_left",
        "random",
        "reserve",
        "restarts",
        "seed",
        "session",
        "site",
        "stack",
        "tickets",
    )

    def __init__(self) -> None:
        self.stack: list[Site] = []  # never replaced: compiled code holds it
        self.module: Module | None = None
        self.session: Any = None
        self.reset(Limits())
        self.finish()

    def reset(self, limits: Limits, seed: int = 0) -> None:
        """Begin an evaluation with fresh limits."""
        self.limits = limits
        self.depth = limits.depth
        self.site = NO_SITE
        self.stack.clear()
        self.handlers: tuple[Any, ...] = ()
        self.restarts: tuple[Any, ...] = ()
        self.fuel = min(CHUNK, limits.fuel, limits.depth)
        self.tickets: Iterator[None] = NO_TICKETS
        self.reserve = limits.fuel - self.fuel
        self.memory = limits.memory
        self.output_left = limits.output
        self.deadline = monotonic() + limits.seconds
        self.objects_at = 0
        self.objects_before = sys.getallocatedblocks()  # what the rest of the process holds
        self.output: Any = Sink()
        self.random: Any = None
        self.seed = seed

    def finish(self) -> None:
        """End an evaluation: what is read or printed before the next one, however much in all, has
        no limit but that of depth."""
        self.stack.clear()
        self.deadline = inf
        self.reserve = self.memory = self.output_left = self.objects_before = sys.maxsize

    def refuel(self, site: Site | None = None) -> None:
        """Called when `fuel` has gone below zero: the next chunk, or E-LIMIT at `site` (a loop's,
        which no call has set)."""
        self.fuel += length_hint(self.tickets)
        self.tickets = NO_TICKETS
        if self.fuel >= 0:
            return
        if site is not None:
            self.site = site
        if self.reserve <= 0:
            raise limit("fuel", self.limits.fuel)
        room = self.depth - len(self.stack)
        if room < 0:
            raise limit("depth", self.depth)
        if monotonic() > self.deadline:
            raise limit("time", self.limits.seconds)
        portion = min(min(CHUNK, room) - self.fuel, self.reserve)
        self.objects_at += portion
        if self.objects_at >= 8 * CHUNK:
            self.objects_at = 0
            if sys.getallocatedblocks() - self.objects_before > self.limits.objects:
                raise limit("objects", self.limits.objects)
        self.reserve -= portion
        self.fuel += portion
        if self.fuel < 0:
            raise limit("fuel", self.limits.fuel)

    def take_ticket(self) -> None:
        """Called when no ticket is left: take the step of a call, and tickets for the next ones."""
        self.fuel -= 1
        if self.fuel < 0:
            self.refuel()
        count = self.fuel >> 1
        self.fuel -= count
        self.tickets = repeat(None, count)

    def left(self) -> int:
        """The fuel that is left."""
        return self.fuel + length_hint(self.tickets) + self.reserve

    def charge(self, steps: int) -> None:
        """Take fuel for a builtin that does `steps` steps."""
        if steps > CHUNK:
            if steps > self.left():
                self.reserve = 0
                raise limit("fuel", self.limits.fuel)
            self.reserve -= steps
            steps = 0
            if monotonic() > self.deadline:
                raise limit("time", self.limits.seconds)
        self.fuel -= steps
        if self.fuel < 0:
            self.refuel()

    def charge_memory(self, size: int) -> None:
        """Take memory for a builtin that is about to allocate `size` bytes (letters count as one).
        To be called before `charge`: what is too big for the memory is no matter of steps."""
        self.memory -= size
        if self.memory < 0:
            self.memory = max(0, self.memory + size)
            raise limit("memory", self.limits.memory)

    def charge_output(self, characters: int) -> None:
        """Take output for `characters` about to be written to the outside."""
        self.output_left -= characters
        if self.output_left < 0:
            raise limit("output", self.limits.output)


STATE = State()
charge = STATE.charge
charge_memory = STATE.charge_memory


def limit(kind: str, amount: float) -> BaseException:
    """The exception of a limit that was reached: fuel, time, depth, memory, objects, output,
    nesting, forms, expansion."""
    from sexpgpu.lisp.errors import LimitError

    return LimitError(kind, amount)


def current_origin() -> Origin:
    """Where the call being made is: its span, the calls around it, the macro expansions."""
    site = STATE.site
    calls: list[Span] = []
    for at in reversed(STATE.stack):
        if at.span is not None:
            calls.append(at.span)
            if len(calls) == 8:
                break
    span = site.span
    if span is None:
        if not calls:
            return NOWHERE
        span = calls[0]
    expansions = tuple((name, use) for name, use in site.expansions if use is not None)
    return Origin(span, tuple(calls), expansions)
