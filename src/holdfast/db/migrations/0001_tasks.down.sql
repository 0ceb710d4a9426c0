-- Takes away everything that 0001 made; the runner refuses while tasks are there, unless told to.
drop view holdfast.task_states;
drop table
    holdfast.settled_minutes,
    holdfast.settled_deltas,
    holdfast.task_attempts,
    holdfast.task_history,
    holdfast.task_keys,
    holdfast.sweeps,
    holdfast.queues,
    holdfast.schedules,
    holdfast.maintenance,
    holdfast.workers,
    holdfast.cancel_requests,
    holdfast.wakes,
    holdfast.followups,
    holdfast.running,
    holdfast.waiting,
    holdfast.turns,
    holdfast.slots,
    holdfast.rates,
    holdfast.guards,
    holdfast.buckets,
    holdfast.ready,
    holdfast.tasks;
drop sequence holdfast.fence, holdfast.lane_position, holdfast.hint_0, holdfast.hint_1, holdfast.hint_2, holdfast.hint_3;
