"""Every tensor function of the language, by family. Importing this package declares them all."""

from __future__ import annotations

from sexpgpu.trace.functions import assign as assign
from sexpgpu.trace.functions import attention as attention
from sexpgpu.trace.functions import compare as compare
from sexpgpu.trace.functions import control as control
from sexpgpu.trace.functions import conv as conv
from sexpgpu.trace.functions import einsum as einsum
from sexpgpu.trace.functions import elementwise as elementwise
from sexpgpu.trace.functions import factor as factor
from sexpgpu.trace.functions import gradient as gradient
from sexpgpu.trace.functions import index as index
from sexpgpu.trace.functions import linalg as linalg
from sexpgpu.trace.functions import make as make
from sexpgpu.trace.functions import order as order
from sexpgpu.trace.functions import random as random
from sexpgpu.trace.functions import reduce as reduce
from sexpgpu.trace.functions import resize as resize
from sexpgpu.trace.functions import rounding as rounding
from sexpgpu.trace.functions import shape as shape
from sexpgpu.trace.functions import types as types
