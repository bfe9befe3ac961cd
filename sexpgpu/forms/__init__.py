"""The run file's own forms: knobs, loaders, models, optimizers, passes, the run.

Each file declares one kind of form as a host macro whose expansion calls functions of that file;
what a file declares is collected in the `Experiment` under construction. Importing this package
puts every form, and every tensor function, into the TENSOR layer.
"""

from sexpgpu.forms import curriculum as curriculum
from sexpgpu.forms import declarations as declarations
from sexpgpu.forms import defmodel as defmodel
from sexpgpu.forms import defoptimizer as defoptimizer
from sexpgpu.forms import evaluations as evaluations
from sexpgpu.forms import groups as groups
from sexpgpu.forms import loaders as loaders
from sexpgpu.forms import models as models
from sexpgpu.forms import rebinding as rebinding
from sexpgpu.forms import runs as runs
from sexpgpu.forms import sources as sources
from sexpgpu.forms import statistics as statistics
from sexpgpu.trace import counters as counters
from sexpgpu.trace import functions as functions
from sexpgpu.trace import runfile as runfile
