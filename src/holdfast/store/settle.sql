-- Moves tasks out of `running`: to `task_history`, back to `ready`, or to a mark in `tasks`.


-- name: install_require_moved
-- Raises unless as many tasks were moved as narrow rows were deleted. The code is the one of a serialization failure,
-- because the caller has to do the same: try again.
create or replace function holdfast.require_moved(deleted bigint, moved bigint) returns boolean
language plpgsql
as $$
begin
    if deleted <> moved then
        raise exception using errcode = '40001', message = format(
            'rows of %s of %s tasks were changed or deleted by another transaction meanwhile: try again', deleted - moved, deleted
        );
    end if;
    return true;
end
$$;


-- name: complete
-- Success: out of running under the fence, out of tasks, into history, in one statement. Ids that do
-- not come back were refused. Permits of limits belong to the worker, not to the task: nothing is freed here.
with gone as (
    delete from holdfast.running r
    using unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(results)b::jsonb[]) as v (id, fence, result)
    cross join lateral (
        select c.ctid as place from holdfast.running c where c.id = v.id and c.fence = v.fence offset 0
    ) x
    where r.ctid = x.place
    returning r.id, r.fence, r.worker, r.started_at, v.result
), done as (
    delete from holdfast.tasks t
    using gone g
    cross join lateral (
        select c.ctid as place from holdfast.tasks c where c.id = g.id offset 0
    ) x
    where t.ctid = x.place
    returning t.id, t.enqueued_at, t.attempts, t.polls, t.failures, t.crashes, t.priority, t.version, t.kind,
        t.queue, t.payload, t.subject, t.trace_id, t.key, g.fence, g.worker, g.started_at, g.result
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select coalesce(%(now)s::timestamptz, now()), count(*), sum(date_part('epoch', now() - d.started_at)), d.kind, 'complete'
    from done d
    -- Asked once, whether or not any were done.
    where (select holdfast.require_moved((select count(*) from gone), (select count(*) from done)))
    group by d.kind
)
insert into holdfast.task_history (
    id, finished_at, enqueued_at, started_at, fence, worker, attempts, polls, failures, crashes,
    priority, version, kind, queue, payload, result, subject, trace_id, key
)
select
    d.id, coalesce(%(now)s::timestamptz, now()), d.enqueued_at, d.started_at, d.fence, d.worker, d.attempts + 1, d.polls,
    d.failures, d.crashes, d.priority, d.version, d.kind, d.queue,
    case when pg_column_size(d.payload) <= 2048 then d.payload end,
    d.result, d.subject, d.trace_id, d.key
from done d
returning id::text, fence;


-- name: settle
-- Every verdict but success: out of running under the fence, counters and marks in the facts, back to
-- ready where the task lives on, and a record of the attempt.
with verdicts as materialized (
    select v.*
    from jsonb_to_recordset(%(verdicts)s::jsonb) as v (
        id uuid, fence bigint, move text, after_seconds double precision, reason text, progress real,
        attempts integer, failures smallint, crashes smallint, polls integer, rate_limits smallint, isolate boolean,
        failure_class text, error_code text, error_message text, error_stack text, fingerprint text, dead_reason text
    )
), clock as materialized (
    select coalesce(%(now)s::timestamptz, now()) as now
), gone as (
    delete from holdfast.running r
    using verdicts v
    cross join lateral (
        select c.ctid as place from holdfast.running c where c.id = v.id and c.fence = v.fence offset 0
    ) x
    where r.ctid = x.place
    returning
        r.worker, r.started_at, v.*,
        -- A claim that was asked to stop does not go back to the queue, however it ended.
        (
            select q.reason from holdfast.cancel_requests q
            where q.task_id = v.id and q.fence = v.fence
        ) as asked
), changed as (
    update holdfast.tasks t
    set attempts = t.attempts + g.attempts,
        failures = t.failures + g.failures,
        crashes = t.crashes + g.crashes,
        polls = t.polls + g.polls,
        rate_limits = t.rate_limits + g.rate_limits,
        isolate = coalesce(g.isolate, t.isolate),
        progress = greatest(t.progress, g.progress),
        polling_since = case when g.move = 'snooze' then coalesce(t.polling_since, g.started_at) else t.polling_since end,
        progressed_at = case when g.move = 'snooze' and (t.progressed_at is null or g.progress > t.progress or t.progress is null and g.progress is not null)
            then g.started_at else t.progressed_at end,
        last_attempt_at = c.now,
        -- It had been due: a moment that lies ahead of the clock is of before the clock was put back.
        run_at = case when g.after_seconds is null then least(t.run_at, clock_timestamp())
            -- Woken while it was looking: what it saw may be old, so it looks again.
            when g.move = 'snooze' and exists (select from holdfast.wakes w where w.task_id = g.id and w.fence = g.fence) then clock_timestamp()
            else greatest(c.now + make_interval(secs => g.after_seconds), clock_timestamp()) end,
        mark = case when g.move = 'fail' then 'failed' when g.move = 'cancel' or g.asked is not null then 'cancelled' end,
        marked_at = case when g.move in ('fail', 'cancel') or g.asked is not null then c.now end,
        mark_reason = case when g.move = 'cancel' then g.reason when g.move <> 'fail' then g.asked end,
        dead_reason = g.dead_reason,
        failed_at = case when g.failure_class is null then t.failed_at else c.now end,
        failure_class = coalesce(g.failure_class, t.failure_class),
        error_code = case when g.failure_class is null then t.error_code else g.error_code end,
        error_message = case when g.failure_class is null then t.error_message else g.error_message end,
        error_stack = case when g.failure_class is null then t.error_stack else g.error_stack end,
        fingerprint = coalesce(g.fingerprint, t.fingerprint)
    from clock c
    cross join gone g
    cross join lateral (
        select p.ctid as place from holdfast.tasks p where p.id = g.id offset 0
    ) x
    where t.ctid = x.place
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position, t.mark
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
    where c.mark is null
), noted as (
    insert into holdfast.task_attempts (
        task_id, ended_at, started_at, fence, worker, ended_as, kind, reason, progress,
        failure_class, error_code, error_message, error_stack, fingerprint
    )
    select
        g.id, k.now, g.started_at, g.fence, g.worker, g.move, c.kind, g.reason, g.progress,
        g.failure_class, g.error_code, g.error_message, g.error_stack, g.fingerprint
    from gone g
    join changed c on c.id = g.id
    cross join clock k
), causes as (
    -- In their order, so that two who meet the same new causes cannot deadlock; a known one is only read.
    insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at)
    select distinct on (g.fingerprint) g.fingerprint, c.kind, g.failure_class, g.error_code, left(g.error_message, 500), k.now
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    where g.fingerprint is not null
    order by g.fingerprint
    on conflict do nothing
), met as (
    insert into holdfast.failure_deltas (failed_at, failures, fingerprint, release)
    select k.now, count(*), g.fingerprint, (select w.release from holdfast.workers w where w.id = g.worker)
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    where g.fingerprint is not null
    group by k.now, g.fingerprint, g.worker
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select k.now, count(*), sum(date_part('epoch', now() - g.started_at)), c.kind, g.move
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    group by k.now, c.kind, g.move
)
select c.id::text, g.fence
from changed c
join gone g on g.id = c.id
where (select holdfast.require_moved((select count(*) from gone), (select count(*) from changed)));


-- name: lock_running
-- A group with several kinds of verdicts is written by several statements; its rows are locked first,
-- in the order of their ids, so that two who settle the same tasks cannot deadlock. And whoever asks a running
-- task to stop or to poll again shares the lock of its row: what they wrote is seen by what comes after this.
select from holdfast.running r
where r.id = any (%(ids)s::uuid[])
order by r.id
for update;


-- name: note_late
-- A refused late result leaves a record, never silence; and it is counted.
with noted as (
    insert into holdfast.task_attempts (
        task_id, ended_at, started_at, fence, worker, ended_as, kind, reason
    )
    select v.id, coalesce(%(now)s::timestamptz, now()), v.started_at, v.fence, %(worker)s::uuid, 'late', v.kind, v.reason
    from unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(kinds)s::text[], %(starts)s::timestamptz[], %(reasons)s::text[])
        as v (id, fence, kind, started_at, reason)
    returning ended_at, kind
)
insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
select n.ended_at, count(*), 0, n.kind, 'late' from noted n group by 1, 4;


-- name: settled_before
-- After an ambiguous settle: which of these verdicts did land, as told by history and attempts.
select v.id::text, v.fence
from unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(moves)s::text[]) as v (id, fence, move)
where v.move = 'complete' and exists (
        select from holdfast.task_history h
        where h.id = v.id and h.fence = v.fence
    )
    or exists (
        select from holdfast.task_attempts a
        where a.task_id = v.id and a.fence = v.fence and a.ended_as = v.move
    );


-- name: drop_missing
-- Of these claims those on tasks whose facts somebody has deleted: nothing is left to settle, and nobody would take them back.
delete from holdfast.running r
using unnest(%(ids)s::uuid[], %(fences)s::bigint[]) as v (id, fence)
where r.id = v.id and r.fence = v.fence and not exists (select from holdfast.tasks t where t.id = v.id)
returning r.id::text;
