"""Codes of what surrounds a run: checkpoints, devices, stores, several processes, and our own
faults. No single file can show these, so they have no examples."""

from __future__ import annotations

from sexpgpu.diagnostics.model import code

# ---- INT: faults of the product ------------------------------------------------------------
E_INT_001 = code(
    "E-INT-001",
    title="internal fault",
    explain=(
        "The product met a state it should never be in. Nothing in the file is to blame, though "
        "a change there may avoid it. The run directory, if there is one, is as the last event "
        "left it."
    ),
    fix="report the version, the command and the traceback that `--traceback` shows",
)
E_INT_002 = code(
    "E-INT-002",
    title="damaged installation",
    explain=(
        "A part of the product itself is missing or cannot be read: the prelude, a standard "
        "module, a documentation page or a Python module."
    ),
    fix="install sexpgpu again",
)

# ---- CKPT: checkpoints and resume ----------------------------------------------------------
E_CKPT_001 = code(
    "E-CKPT-001",
    title="no checkpoint to resume from",
    explain=(
        "`--resume STEP` or `--resume PATH` names a checkpoint that does not exist. "
        "(`--resume latest` starts at step 0 when there is none yet, and says so.)"
    ),
    fix="`sexpgpu status` lists the runs in the folder runs, `sexpgpu checkpoint list RUN` what "
    "one has saved",
)
E_CKPT_002 = code(
    "E-CKPT-002",
    title="damaged checkpoint",
    explain=(
        "A file of the checkpoint is missing, has another size, or its SHA-256 differs from the "
        "checkpoint's manifest, so what it would restore is not what was saved."
    ),
    fix="resume from another step, or from `latest`, which takes the newest whole checkpoint",
)
E_CKPT_003 = code(
    "E-CKPT-003",
    title="the run exists",
    explain=(
        "A run directory of this slug is there already: the same name, variants, knobs and IR. "
        "A second run would overwrite its events and checkpoints."
    ),
    fix="go on with it by `--resume latest`, or start again by `--fresh`, or name another `--slug`",
)
E_CKPT_004 = code(
    "E-CKPT-004",
    title="the experiment differs from the checkpoint's",
    explain=(
        "The checkpoint was written by an experiment whose IR differs from this one's, or that "
        "read other data; the differences are listed. Going on would join two experiments under "
        "one name."
    ),
    fix=(
        "run the file the checkpoint came from, or accept the listed changes with "
        "`--allow-change`, which records both manifests"
    ),
)
E_CKPT_005 = code(
    "E-CKPT-005",
    title="the change does not fit the checkpoint",
    explain=(
        "`--allow-change` accepts what keeps the shape and dtype of every parameter, buffer and "
        "optimizer state. This change adds, drops or reshapes one."
    ),
    fix="start a new run; `defrun :init-from` takes over the parameters that still fit",
)
E_CKPT_006 = code(
    "E-CKPT-006",
    title="a checkpoint could not be written",
    explain=(
        "Writing or sealing a checkpoint failed, for the reason given. The run has ended: no run "
        "goes on unsaved. Earlier checkpoints are untouched."
    ),
    fix="mend the reason given (space, quota, permission, network), then `--resume latest`",
)
E_CKPT_007 = code(
    "E-CKPT-007",
    title="the run is in use",
    explain=(
        "Another process holds the run directory's lock and its heartbeat is younger than 60 s. "
        "Two processes cannot write one run."
    ),
    fix="stop the other process, or wait: the lock is stale 60 s after its last heartbeat",
)
E_CKPT_008 = code(
    "E-CKPT-008",
    title="not a run directory or a checkpoint",
    explain="The path named holds no `status.json`, `events.jsonl` or sealed checkpoint.",
    fix="name a run directory, one of its `checkpoints/STEP`, or a URL of either",
)
E_CKPT_009 = code(
    "E-CKPT-009",
    title="format not known",
    explain=(
        "The checkpoint or run directory was written by another version of sexpgpu, whose format "
        "this version does not know."
    ),
    fix="use the version of sexpgpu that is named in its manifest",
)
E_CKPT_010 = code(
    "E-CKPT-010",
    title="the run's events do not match its checkpoint",
    explain=(
        "The checkpoint says how many events, to the byte, had been written when it was taken, "
        "but `events.jsonl` is shorter or differs there. It was edited or truncated."
    ),
    fix=(
        "restore `events.jsonl`, or go on from the checkpoint in a new run directory: "
        "`--resume RUN@STEP --slug NAME`"
    ),
)
E_CKPT_011 = code(
    "E-CKPT-011",
    title="the file of weights cannot be read",
    explain=(
        "A safetensors or npz file is cut short, malformed, or holds a dtype that is not known "
        "here. Nothing was taken from it."
    ),
    fix="write or fetch the file again; `sexpgpu checkpoint export` writes both kinds",
)
E_CKPT_012 = code(
    "E-CKPT-012",
    title="the initial weights do not fit the model",
    explain=(
        "`:init-from` (or `--init-from`) gives every parameter and buffer its value from a run, a "
        "checkpoint or a file of weights. Some are not there, some fit nothing, or a shape "
        "differs; the message lists them with the nearest paths."
    ),
    fix=(
        'map names by `:map (list (list "from" "to"))`, allow what may be missing by '
        '`:missing (list "head/**")`, leave out what is too much by `:extra`, and what has another '
        'shape by both `:missing` and `(list "head/**" nil)` in `:map`'
    ),
)
E_CKPT_013 = code(
    "E-CKPT-013",
    title="nothing to export",
    explain=(
        "`checkpoint export` was to write tensors that the checkpoint does not have, or in a "
        "kind of file that is not known."
    ),
    fix="name a file that ends in .safetensors or .npz, and patterns that match some path",
)
W_CKPT_001 = code(
    "W-CKPT-001",
    title="checkpoint skipped",
    explain=(
        "A checkpoint is torn or damaged, as a kill in the middle of a save leaves one. It was "
        "passed over, and the newest whole one is used."
    ),
    fix="nothing to do; the damaged one can be deleted",
)
W_CKPT_002 = code(
    "W-CKPT-002",
    title="nothing to resume: starting at step 0",
    explain=(
        "`--resume latest` found no checkpoint of this run. That is what the first start of a "
        "job that requeues itself looks like."
    ),
    fix="nothing to do on a first start; otherwise check `--runs` and the selection",
)
W_CKPT_003 = code(
    "W-CKPT-003",
    title="stale lock taken over",
    explain=(
        "The process that held the run's lock has given no heartbeat for 60 s, or was of the same "
        "job, so the lock was taken over."
    ),
    fix="nothing to do, unless the other process is alive after all on a machine that hangs",
)
W_CKPT_004 = code(
    "W-CKPT-004",
    title="resumed with changes",
    explain=(
        "The experiment differs from the checkpoint's and `--allow-change` was given. The "
        "differences and both manifests are recorded in the `resume` event."
    ),
    fix="nothing to do, if these are the changes you meant",
)
W_CKPT_005 = code(
    "W-CKPT-005",
    title="events were lost",
    explain=(
        "Somebody removed `events.jsonl` of a run that goes on, or cut it short. The run goes on "
        "and writes what happens from now on; earlier events are gone, and checkpoints from before "
        "can only be gone on from in another run directory."
    ),
    fix="keep the files of a run directory as they are while a process writes it",
)

# ---- DEV: devices and what this machine has ------------------------------------------------
E_DEV_001 = code(
    "E-DEV-001",
    title="device not available",
    explain=(
        "The device asked for cannot be used here: no such hardware, no driver, or jax was "
        "installed without support for it."
    ),
    fix="`sexpgpu docs install` says what each device needs; `--device auto` takes what there is",
)
E_DEV_002 = code(
    "E-DEV-002",
    title="the devices do not divide the batch",
    explain=(
        "Each microbatch is split equally over the devices, so their number must divide the "
        "microbatch of every stage."
    ),
    fix="choose a `:batch` and `:microbatches` that the number of devices divides",
)
E_DEV_003 = code(
    "E-DEV-003",
    title="not enough devices",
    explain="More devices were asked for than this machine, or this job, has.",
    fix="ask for fewer",
)
E_DEV_004 = code(
    "E-DEV-004",
    title="out of memory",
    explain=(
        "The device or host has no room for the parameters, optimizer state and activations of "
        "a step. `sexpgpu explain` shows the plan."
    ),
    fix="more `:microbatches`, a smaller batch, or `:precision :bf16`",
)
E_DEV_005 = code(
    "E-DEV-005",
    title="package missing or too old",
    explain="A Python package that this verb needs is not installed, or its version is too old.",
    fix="install the package that the message names; see `sexpgpu docs install`",
)
E_DEV_006 = code(
    "E-DEV-006",
    title="the device failed",
    explain=(
        "The device or its compiler reported an error of its own, quoted in the message. It is "
        "not a fault of the file."
    ),
    fix="`--resume latest` goes on from the last checkpoint; if it recurs, check the device",
)
E_DEV_007 = code(
    "E-DEV-007",
    title="not permitted on this machine",
    explain="The operating system refused something a run needs, as the message says.",
    fix="give the permission, or point `--runs` or SEXPGPU_CACHE at a place that is yours",
)
E_DEV_008 = code(
    "E-DEV-008",
    title="environment variable not understood",
    explain="An environment variable that sexpgpu reads has a value it cannot use.",
    fix="unset or correct it; `sexpgpu docs environment` lists the variables",
)
W_DEV_001 = code(
    "W-DEV-001",
    title="not all devices are used",
    explain=(
        "The number of local devices does not divide the microbatch, so only the largest number "
        "that does is used."
    ),
    fix="choose a `:batch` and `:microbatches` that the number of devices divides",
)
W_DEV_002 = code(
    "W-DEV-002",
    title="the compilation cache is not usable",
    explain="The cache directory cannot be written or read, so every start compiles again.",
    fix="set SEXPGPU_CACHE to a writable directory",
)

# ---- STORE: files, URLs, S3 ----------------------------------------------------------------
E_STORE_001 = code(
    "E-STORE-001",
    title="file not found",
    explain="No file or object of this name exists, or a pattern matches none.",
    fix="relative paths are relative to the file that names them; check the spelling",
)
E_STORE_002 = code(
    "E-STORE-002",
    title="access denied",
    explain=(
        "The file system or object store refused: permissions, or missing, wrong or expired "
        "credentials."
    ),
    fix="check the permissions, or the credentials that the store is given",
)
E_STORE_003 = code(
    "E-STORE-003",
    title="the store cannot be reached",
    explain=(
        "Connections failed, timed out, or the store answered with errors, until the deadline "
        "for trying again had passed."
    ),
    fix="check the network and AWS_ENDPOINT_URL, then `--resume latest`",
)
E_STORE_004 = code(
    "E-STORE-004",
    title="no space left",
    explain="A write failed because the disk or the quota is full.",
    fix="free space, or lower `:checkpoint (:keep n)`; then `--resume latest`",
)
E_STORE_005 = code(
    "E-STORE-005",
    title="no support for this kind of URL",
    explain="The URL's scheme is unknown, or the package that serves it is not installed.",
    fix="`s3://` and local paths work out of the box; others need their fsspec package",
)
E_STORE_006 = code(
    "E-STORE-006",
    title="read or write failed",
    explain="The operating system reported an error while a file was read or written.",
    fix="see the reason given",
)
E_STORE_007 = code(
    "E-STORE-007",
    title="the file changed under the run",
    explain=(
        "A file of the data has another size, or other bytes, than when the run opened it, or was "
        "replaced, so records might no longer be those recorded. (Another date alone is no matter.)"
    ),
    fix="keep data files unchanged while runs read them; start again with the new data",
)
E_STORE_008 = code(
    "E-STORE-008",
    title="target exists",
    explain="The file or directory to be written exists already, and nothing is overwritten.",
    fix="name another target, or remove it first",
)
W_STORE_001 = code(
    "W-STORE-001",
    title="the store is slow or failing; trying again",
    explain="A request to the object store failed in a way that passes; it is tried again.",
    fix="nothing to do, if it stays rare",
)

W_STORE_002 = code(
    "W-STORE-002",
    title="a target of the run's numbers is given up",
    explain=(
        "What `--log` names failed, or fell too far behind. The run goes on without it: targets "
        "never stop or slow training. Every number stands in `events.jsonl` all the same."
    ),
    fix="mend what the message says; the next resume gives the target what it lacks",
)

# ---- DIST: several processes ---------------------------------------------------------------
E_DIST_001 = code(
    "E-DIST-001",
    title="the cluster's variables are incomplete",
    explain=(
        "The environment names some, but not all, of what several processes need to find each "
        "other: coordinator, number of processes, and each one's number."
    ),
    fix="start every process under the scheduler's launcher",
)
E_DIST_002 = code(
    "E-DIST-002",
    title="the processes could not join",
    explain="Not every process reached the coordinator before the deadline.",
    fix="check that the coordinator's host and port can be reached from every node",
)
E_DIST_003 = code(
    "E-DIST-003",
    title="another process failed",
    explain=(
        "A process of this job ended or stopped answering, so all were ended. Its own output has "
        "the reason."
    ),
    fix="mend what that process reports, then `--resume latest`",
)
E_DIST_004 = code(
    "E-DIST-004",
    title="the processes differ",
    explain=(
        "The processes of one job must run the same file, selection, version and flags; their "
        "IR hashes or settings differ."
    ),
    fix="start all processes by the same command on the same files",
)
E_DIST_005 = code(
    "E-DIST-005",
    title="the processes do not divide the batch",
    explain="Each process reads an equal share of every microbatch.",
    fix="choose a batch that the number of processes times their devices divides",
)
