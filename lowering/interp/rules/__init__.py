"""NumPy rules, one file a family of ops. Importing this package registers them all."""

from sexpgpu.lowering.interp.rules import (
    attention as attention,
)
from sexpgpu.lowering.interp.rules import (
    control as control,
)
from sexpgpu.lowering.interp.rules import (
    conv as conv,
)
from sexpgpu.lowering.interp.rules import (
    elementwise as elementwise,
)
from sexpgpu.lowering.interp.rules import (
    factor as factor,
)
from sexpgpu.lowering.interp.rules import (
    index as index,
)
from sexpgpu.lowering.interp.rules import (
    linalg as linalg,
)
from sexpgpu.lowering.interp.rules import (
    make as make,
)
from sexpgpu.lowering.interp.rules import (
    order as order,
)
from sexpgpu.lowering.interp.rules import (
    random as random,
)
from sexpgpu.lowering.interp.rules import (
    reduce as reduce,
)
from sexpgpu.lowering.interp.rules import (
    shape as shape,
)
