-- What operators do to tasks that nobody holds, and to kinds and queues.


-- name: request_cancel
-- Queued and paused tasks are cancelled here and now; a running one is asked to stop.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and (t.mark is null or t.mark = 'paused')
), dropped as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
    returning r.id
), stepped_out as (
    delete from holdfast.blocked w
    using facts f
    where w.id = f.id
    returning w.id
), asked as (
    insert into holdfast.cancel_requests (task_id, fence, requested_at, reason)
    -- Locked, so that a claim that is just being settled is not asked in vain.
    select r.id, r.fence, now(), %(reason)s
    from (
        select c.id, c.fence from holdfast.running c join facts f on f.id = c.id for share of c
    ) r
    on conflict (task_id, fence) do update set reason = excluded.reason
    returning task_id as id
), held as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = %(reason)s
    from facts f
    where t.id = f.id and t.mark = 'paused'
    returning t.id
), changed as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = %(reason)s
    from (select id from dropped union all select id from stepped_out) d
    where t.id = d.id and t.mark is null
    returning t.id
)
select id::text, false as asked from changed
union all
select id::text, false from held
union all
select id::text, true from asked;


-- name: wake
-- Moves the next poll of tasks that have snoozed forward, to now; never back. One that is polling just now is
-- told to poll once more. Answers which were moved, and which were told.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at, t.timeout_seconds, t.kind, t.bucket, t.position
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark is null
), told as (
    insert into holdfast.wakes (task_id, fence, woken_at)
    -- Locked, so that a claim that is just being settled is not told in vain.
    select r.id, r.fence, now()
    from (
        select c.id, c.fence from holdfast.running c join facts f on f.id = c.id for share of c
    ) r
    on conflict (task_id, fence) do nothing
    returning task_id as id
), taken as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
        and f.run_at > clock_timestamp()
        and exists (select from holdfast.tasks t where t.id = f.id and t.polls > 0)
    returning r.id
), changed as (
    update holdfast.tasks t
    set run_at = clock_timestamp()
    from taken k
    where t.id = k.id
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
)
select c.id::text, holdfast.hint(c.queue)::text from changed c
union all
select id::text, null from told;


-- name: prune_wakes
-- A wake is for one claim. When that claim has ended, nothing reads the row any more.
delete from holdfast.wakes w
where not exists (select from holdfast.running r where r.id = w.task_id and r.fence = w.fence)
returning w.task_id;


-- name: expire
-- What did not start in time is cancelled, wherever it waits.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.expires_at <= now() and t.expires_at is not null and t.mark is distinct from 'failed' and t.mark is distinct from 'cancelled'
        and not exists (select from holdfast.running r where r.id = t.id)
    order by t.expires_at
    limit %(limit)s
), dropped as (
    -- What a producer or a claimer holds is left for the next round.
    delete from holdfast.ready r
    where r.ctid = any (array(
        select c.ctid
        from holdfast.ready c
        join facts f on c.queue = f.queue and c.priority = f.priority and c.run_at = f.run_at and c.id = f.id
        for update of c skip locked
    ))
    returning r.id
), stepped_out as (
    delete from holdfast.blocked w
    where w.ctid = any (array(select c.ctid from holdfast.blocked c join facts f on f.id = c.id for update of c skip locked))
    returning w.id
), held as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = 'expired'
    where t.ctid = any (array(
        select c.ctid from holdfast.tasks c join facts f on f.id = c.id where c.mark = 'paused' for update of c skip locked
    ))
    returning t.id
), changed as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = 'expired'
    from (select id from dropped union all select id from stepped_out) d
    where t.id = d.id and t.mark is null
    returning t.id
)
select id::text from changed
union all
select id::text from held;


-- name: pause
-- Only a queued task: one that runs is cancelled or waited for.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark is null
), dropped as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
    returning r.id
), stepped_out as (
    delete from holdfast.blocked w
    using facts f
    where w.id = f.id
    returning w.id
), changed as (
    update holdfast.tasks t
    set mark = 'paused', marked_at = now(), mark_reason = %(reason)s
    where t.mark is null and t.id in (select id from dropped union all select id from stepped_out)
    returning t.id
)
select id::text from changed;


-- name: resume
-- A paused task goes back in at the clock of this moment, never behind the floor.
with xid as materialized (
    select pg_current_xact_id() as number
), changed as (
    update holdfast.tasks t
    set mark = null, marked_at = null, mark_reason = null, run_at = {due_from}
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark = 'paused'
        -- A write from outside may have left it one. Two rows of one task would stop every claim of its queue.
        and (
            {has_row}
        ) is not true
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;


-- name: redrive
-- An operator puts dead or cancelled tasks back to work with their counters cleared; the attempts
-- made so far stay on record.
with xid as materialized (
    select pg_current_xact_id() as number
), changed as (
    update holdfast.tasks t
    set {begun_anew} last_replayed_by = %(by)s, last_replay_reason = %(reason)s,
        run_at = {due_from}
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
        and (
            {has_row}
        ) is not true
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;


-- name: edit
-- A dead or cancelled task gets another payload, if it still has the one that was looked at; the old one is kept.
with found as materialized (
    select t.id, t.payload, t.version
    from holdfast.tasks t
    where t.id = %(id)s::uuid and t.mark in ('failed', 'cancelled') and md5(t.payload::text) = %(seen)s
    for update
), kept as (
    insert into holdfast.task_edits (task_id, edited_at, edited_by, reason, version, payload)
    select f.id, clock_timestamp(), %(by)s, %(reason)s, f.version, f.payload from found f
), changed as (
    update holdfast.tasks t
    set payload = %(payload)s::jsonb, version = %(version)s
    from found f
    where t.id = f.id
    returning t.id
)
select c.id::text from changed c;


-- name: lock_dead
-- Those of these tasks that are dead or cancelled, held until the caller commits.
select t.id::text from holdfast.tasks t
where t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
order by t.id
for update;


-- name: forget
-- Dead or cancelled tasks are let go for good, with what they were before.
with changed as (
    delete from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
    returning t.id, t.kind, t.key, t.bucket, t.position
), {traces_forgotten}
select c.id::text, case when c.position is not null then c.bucket end from changed c;


-- name: pause_kind
-- Tasks of the kind step behind its bucket as claims meet them; running ones go on.
insert into holdfast.buckets as b (name, kind, paused_at, paused_by, paused_until, pause_reason)
values ('kind:' || %(kind)s::text, %(kind)s, now(), %(by)s, %(until)s, %(reason)s)
on conflict (name) do update
set paused_at = coalesce(b.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, paused_until = excluded.paused_until, pause_reason = excluded.pause_reason;


-- name: resume_kind
-- Answers the bucket only if it was paused, so that nobody is told of a change that did not happen.
update holdfast.buckets b
set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
where b.kind = %(kind)s and b.paused_at is not null
returning b.name;


-- name: pause_queue
-- A second pause changes reason and end, but keeps the moment since which nothing was claimed.
insert into holdfast.queues as q (name, paused_at, paused_by, paused_until, pause_reason)
values (%(queue)s, now(), %(by)s, %(until)s, %(reason)s)
on conflict (name) do update
set paused_at = coalesce(q.paused_at, now()), paused_by = excluded.paused_by,
    paused_until = excluded.paused_until, pause_reason = excluded.pause_reason;


-- name: resume_queue
-- Answers the queue only if it was paused, so that nobody is told of a change that did not happen.
update holdfast.queues q
set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
where q.name = %(queue)s and q.paused_at is not null
returning q.name;


-- name: end_due_pauses
-- Pauses whose end has come.
with kinds as (
    update holdfast.buckets b
    set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
    where b.paused_until <= now()
    returning b.name
), queues as (
    update holdfast.queues q
    set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
    where q.paused_until <= now()
    returning q.name
), risen as (
    -- Fully taken up again.
    update holdfast.queues q
    set resumed_at = null
    where q.resumed_at < now() - interval '10 s' and q.paused_at is null
)
select name from kinds
union all
select name from queues;


-- name: prune_cancelled
-- Cancelled tasks past their retention; dead letters stay until someone forgets them.
delete from holdfast.tasks t
where t.ctid = any (array(
    select c.ctid
    from holdfast.tasks c
    where c.mark = 'cancelled' and c.marked_at <= coalesce(%(now)s::timestamptz, now()) - make_interval(days => %(days)s::integer)
    order by c.marked_at
    limit %(limit)s
    for update skip locked
))
returning t.id::text;
