"""lax rules, one file a family of ops. Importing this package registers them all."""

from sexpgpu.lowering.xla.rules import (
    attention as attention,
)
from sexpgpu.lowering.xla.rules import (
    control as control,
)
from sexpgpu.lowering.xla.rules import (
    conv as conv,
)
from sexpgpu.lowering.xla.rules import (
    elementwise as elementwise,
)
from sexpgpu.lowering.xla.rules import (
    factor as factor,
)
from sexpgpu.lowering.xla.rules import (
    index as index,
)
from sexpgpu.lowering.xla.rules import (
    linalg as linalg,
)
from sexpgpu.lowering.xla.rules import (
    make as make,
)
from sexpgpu.lowering.xla.rules import (
    order as order,
)
from sexpgpu.lowering.xla.rules import (
    random as random,
)
from sexpgpu.lowering.xla.rules import (
    reduce as reduce,
)
from sexpgpu.lowering.xla.rules import (
    shape as shape,
)
