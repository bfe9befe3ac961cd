"""All ops of the IR. Importing this package registers every family.

Knows types, graphs and codes; knows neither the Lisp nor any backend.
"""

from __future__ import annotations

from sexpgpu.ir.graph import Builder
from sexpgpu.ops import attention as attention
from sexpgpu.ops import control as control
from sexpgpu.ops import conv as conv
from sexpgpu.ops import elementwise as elementwise
from sexpgpu.ops import factor as factor
from sexpgpu.ops import index as index
from sexpgpu.ops import linalg as linalg
from sexpgpu.ops import make as make
from sexpgpu.ops import order as order
from sexpgpu.ops import random as random
from sexpgpu.ops import reduce as reduce
from sexpgpu.ops import shape as shape
from sexpgpu.ops.infer import infer as infer
from sexpgpu.ops.schema import OPS as OPS
from sexpgpu.ops.schema import NoGrad as NoGrad
from sexpgpu.ops.schema import OfBody as OfBody
from sexpgpu.ops.schema import OpDef as OpDef
from sexpgpu.ops.schema import OpError as OpError
from sexpgpu.ops.schema import Reject as Reject
from sexpgpu.ops.schema import Sample as Sample
from sexpgpu.source import NOWHERE, Origin


def new_builder(origin: Origin = NOWHERE) -> Builder:
    """A builder whose nodes are checked by the ops' own rules."""
    return Builder(infer, origin)
