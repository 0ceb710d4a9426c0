"""Everything that writes tasks: one verb per module, each beside the `.sql` file with its statements.

A live task has one narrow row: in `ready`, `blocked` or `running`. Deleting that row is what admits the
task's next move. Marked tasks (failed, cancelled, paused) have no narrow row; for them it is an update of
the mark that names the marks it moves from. So no statement needs a lock that outlives it, and READ
COMMITTED is enough. It is also needed: functions of several statements read again what others have
committed while they waited. Functions for workers refuse any other isolation level. An enqueue, which
runs in the transactions of others, fails with 40001 if its snapshot is too old.

Two rules about time keep the floor of a claim correct (`worker/executor/floor.py`):

1. A row enters `ready` with a `run_at` at or after the clock of that moment.
2. The clock is read after the transaction has its number (xid).

One rule is about plans: the hot statements find rows of `tasks` and `running` through a lateral subquery
with `offset 0`, then by ctid. This leaves the planner no other way than one index probe per row. With
plain joins the rate fell from 17,000 tasks a second to none beside an old snapshot. (Probably because,
once statistics called the table empty, the plan read its whole index, with a million dead entries.) Rows
of `ready`, `blocked` and `running` are never updated, and those of `tasks` only by whoever owns the next
move, so a ctid stays valid for the length of a statement. A write from outside the engine can move a row
meanwhile, and a statement skips a row that has moved. So a statement that finds facts by ctid after it
has deleted the narrow row ends with `require_moved`: all of it is rolled back, and its caller tries
again.
"""
