"""`holdfast worker` with another deadline for its statements: `python -m tests.locks.worker worker APP …`."""

import os
from functools import partial

import holdfast.cli.worker
from holdfast.cli.main import main
from holdfast.worker.options import WorkerOptions

DEADLINE = "HOLDFAST_TEST_STATEMENT_SECONDS"

if __name__ == "__main__":
    shorter = partial(WorkerOptions, statement_seconds=float(os.environ[DEADLINE]))
    holdfast.cli.worker.WorkerOptions = shorter  # type: ignore[attr-defined, assignment]
    main()
