-- Reads for people; nothing here writes.


-- shared: marked_looked_at
-- No more than so many are looked at for a list, and those by an index: what it asks for beside that may be rare.
select t.* from holdfast.tasks t
    where t.mark = %(state)s
        and (%(kind)s::text is null or t.kind = %(kind)s)
        and (%(subject)s::text is null or t.subject = %(subject)s)
        and {marked_before}
    order by t.marked_at desc, t.id desc
    limit %(look)s


-- shared: alive_looked_at
-- The same of tasks that have not completed.
select t.* from holdfast.tasks t
    where (%(subject)s::text is null or t.subject = %(subject)s)
        and (%(before)s::uuid is null or t.id < %(before)s::uuid)
    order by t.id desc
    limit %(look)s


-- shared: running_looked_at
-- Of those that run.
select r.id from holdfast.running r where %(before)s::uuid is null or r.id < %(before)s::uuid order by r.id desc limit %(look)s


-- shared: completed_looked_at
-- And of those that have completed.
select h.* from holdfast.task_history h where %(before)s::uuid is null or h.id < %(before)s::uuid order by h.id desc limit %(look)s


-- name: show
-- One task, from the facts or from history.
select
    s.id::text, s.kind, s.queue, s.state, s.priority, s.payload::text, s.result::text, s.subject, s.trace_id, s.key,
    s.attempts, s.failures, s.crashes, s.polls, s.rate_limits, s.max_attempts, s.fence, s.worker::text,
    s.bucket, s.enqueued_at, s.next_attempt_at, s.last_attempt_at, s.finished_at,
    s.execution_seconds, s.progress, s.dead_reason, s.mark_reason, s.failure_class, s.error_code,
    s.error_message, s.error_stack, s.failed_at,
    (select w.lease_expires_at from holdfast.workers w where w.id = s.worker and s.state = 'running'),
    (select t.fingerprint from holdfast.tasks t where t.id = s.id)
from holdfast.task_states s
where s.id = %(id)s::uuid;


-- name: list_marked
-- Failed, cancelled or paused tasks, the newest mark first; by an index of their own.
select
    t.id::text, t.kind, t.queue, t.mark as state, t.attempts, t.failures, t.subject, t.trace_id, t.enqueued_at, null::timestamptz,
    t.marked_at, t.dead_reason, t.error_code, coalesce(t.error_message, t.mark_reason)
from ({marked_looked_at}) t
where (%(queue)s::text is null or t.queue = %(queue)s) and (%(trace)s::text is null or t.trace_id = %(trace)s)
order by t.marked_at desc, t.id desc
limit %(limit)s;


-- name: list_marked_edge
-- The last one that such a look comes to, where there may be more below it.
select t.id::text from ({marked_looked_at}) t order by t.marked_at desc, t.id desc offset %(look)s - 1 limit 1;


-- name: list_alive
-- Tasks that have not completed, the newest first.
select
    t.id::text, t.kind, t.queue,
    case when t.mark is not null then t.mark when r.id is not null then 'running' else 'queued' end as state,
    t.attempts, t.failures, t.subject, t.trace_id, t.enqueued_at, case when t.mark is null and r.id is null then t.run_at end,
    t.marked_at, t.dead_reason, t.error_code, coalesce(t.error_message, t.mark_reason)
from ({alive_looked_at}) t
left join lateral (select c.id from holdfast.running c where c.id = t.id offset 0) r on true
where (%(state)s::text is null or t.mark is null and r.id is null)
    and (%(kind)s::text is null or t.kind = %(kind)s)
    and (%(queue)s::text is null or t.queue = %(queue)s)
    and (%(trace)s::text is null or t.trace_id = %(trace)s)
order by t.id desc
limit %(limit)s;


-- name: list_alive_edge
-- Where the look at a limited number of rows ended, so that the next page goes on from there.
select t.id::text from ({alive_looked_at}) t order by t.id desc offset %(look)s - 1 limit 1;


-- name: list_running
-- Those that run now, the newest first: few, among however many tasks.
select
    t.id::text, t.kind, t.queue, 'running' as state, t.attempts, t.failures, t.subject, t.trace_id, t.enqueued_at, null::timestamptz,
    t.marked_at, t.dead_reason, t.error_code, coalesce(t.error_message, t.mark_reason)
from ({running_looked_at}) f
cross join {tasks_found}
where (%(kind)s::text is null or t.kind = %(kind)s)
    and (%(queue)s::text is null or t.queue = %(queue)s)
    and (%(subject)s::text is null or t.subject = %(subject)s)
    and (%(trace)s::text is null or t.trace_id = %(trace)s)
order by t.id desc
limit %(limit)s;


-- name: list_running_edge
-- Where the look at a limited number of rows ended, so that the next page goes on from there.
select f.id::text from ({running_looked_at}) f order by f.id desc offset %(look)s - 1 limit 1;


-- name: list_completed
-- What has completed, the newest first.
select
    h.id::text, h.kind, h.queue, 'completed' as state, h.attempts, h.failures, h.subject, h.trace_id, h.enqueued_at, null::timestamptz,
    h.finished_at, null, null, null
from ({completed_looked_at}) h
where (%(kind)s::text is null or h.kind = %(kind)s)
    and (%(queue)s::text is null or h.queue = %(queue)s)
    and (%(subject)s::text is null or h.subject = %(subject)s)
    and (%(trace)s::text is null or h.trace_id = %(trace)s)
order by h.id desc
limit %(limit)s;


-- name: list_completed_edge
-- Where the look at a limited number of rows ended, so that the next page goes on from there.
select h.id::text from ({completed_looked_at}) h order by h.id desc offset %(look)s - 1 limit 1;


-- name: attempts
-- The latest claims of a task that ended otherwise than in success, the first of them first.
select * from (
select
    a.fence, a.ended_as, a.started_at, a.ended_at, a.error_code, coalesce(a.error_message, a.reason), a.worker::text,
    w.name, w.release, a.progress, a.failure_class
from holdfast.task_attempts a
left join holdfast.workers w on w.id = a.worker
where a.task_id = %(id)s::uuid
order by a.fence desc, a.ended_at desc
limit %(limit)s
) latest
order by latest.fence, latest.ended_at;


-- name: count_attempts
-- Counts up to a bound: a task that polls may have had any number of claims.
select count(*) from (
    select from holdfast.task_attempts a where a.task_id = %(id)s::uuid limit %(most)s::integer
) a;


-- name: queues
-- Each queue, of so many at most, with what waits in it, counted as far as that is cheap: a figure of `most` + 1 says that there is more.
with recursive found as (
    -- From the end, where the latest stand: beside an old snapshot those at the beginning may all be dead.
    (select r.queue, 1 as nth from holdfast.ready r order by r.queue desc, r.priority desc, r.run_at desc limit 1)
    union all
    select (
        select r.queue from holdfast.ready r where r.queue < f.queue order by r.queue desc, r.priority desc, r.run_at desc limit 1
    ), f.nth + 1
    from found f
    where f.queue is not null and f.nth <= %(queues_max)s::integer
), behind as materialized (
    select w.queue, count(*) as tasks from (select w.queue from holdfast.blocked w limit %(most)s::integer + 1) w group by w.queue
), runs as materialized (
    select t.queue, count(*) as tasks
    from (select r.id from holdfast.running r limit %(most)s::integer + 1) f
    cross join {tasks_found}
    group by t.queue
), served as materialized (
    select
        u.queue, bool_or(w.token is null) as ours, count(distinct w.id) filter (where w.lease_expires_at > now()) as workers
    from holdfast.workers w
    cross join unnest(w.queues) u (queue)
    where w.lost_at is null
    group by u.queue
), names as materialized (
    -- Not all where there are very many: those that somebody has made up do not hide those that our workers serve.
    select a.queue
    from (
        select q.name as queue, 1 as rank from holdfast.queues q
        union all select s.queue, case when s.ours then 1 else 4 end from served s
        union all select r.queue, 2 from runs r
        union all select b.queue, 2 from behind b
        union all select f.queue, 3 from found f where f.queue is not null
    ) a
    group by a.queue
    order by min(a.rank), a.queue
    limit %(queues_max)s::integer + 1
)
select
    n.queue, c.ready, c.scheduled, coalesce(b.tasks, 0), coalesce(r.tasks, 0), c.oldest, coalesce(s.workers, 0),
    q.paused_at, q.paused_by, q.pause_reason, q.paused_until
from names n
cross join lateral (
    -- Priority by priority, which is the order of the index.
    select sum(d.ready)::bigint as ready, sum(d.scheduled)::bigint as scheduled, min(d.oldest) as oldest
    from generate_series(0, 3) as p (priority)
    cross join lateral (
        select
            x.ready,
            (
                select count(*) from (
                    select from holdfast.ready r
                    where r.queue = n.queue and r.priority = p.priority and r.run_at > now() limit %(most)s::integer + 1
                ) x
            ) as scheduled,
            case when x.ready <= %(most)s::integer then x.oldest else (
                select r.run_at from holdfast.ready r
                where r.queue = n.queue and r.priority = p.priority and r.run_at <= now() order by r.run_at limit 1
            ) end as oldest
        from (
            select count(*) as ready, min(l.run_at) as oldest
            from (
                select r.run_at from holdfast.ready r
                where r.queue = n.queue and r.priority = p.priority and r.run_at <= now()
                order by r.run_at desc
                limit %(most)s::integer + 1
            ) l
        ) x
    ) d
) c
left join served s on s.queue = n.queue
left join behind b on b.queue = n.queue
left join runs r on r.queue = n.queue
left join holdfast.queues q on q.name = n.queue
order by n.queue;


-- name: workers
-- Every executor that is known, the lost ones last.
select
    w.id::text, w.name, w.registered_at, w.lease_expires_at, w.lost_at, w.queues, w.kinds, coalesce(h.tasks, 0), w.token is not null, w.release
from holdfast.workers w
left join (select r.worker, count(*) as tasks from holdfast.running r group by r.worker) h on h.worker = w.id
order by w.lost_at nulls first, w.name, w.registered_at
limit %(limit)s;


-- name: totals
-- How many tasks are marked (`most` + 1: more than that), and what ended in the last hour.
select
    (select count(*) from (select from holdfast.tasks t where t.mark = 'failed' limit %(most)s::integer + 1) x),
    (select count(*) from (select from holdfast.tasks t where t.mark = 'paused' limit %(most)s::integer + 1) x),
    (
        select coalesce(sum(x.tasks), 0)
        from (
            select d.tasks from holdfast.settled_deltas d where d.ended_as = 'complete' and d.settled_at > now() - interval '1 hour'
            union all
            select m.tasks from holdfast.settled_minutes m where m.ended_as = 'complete' and m.minute > now() - interval '1 hour'
        ) x
    )::bigint,
    (select max(t.marked_at) from holdfast.tasks t where t.mark = 'failed');


-- name: waiting_long
-- By the order of claiming, a few of each queue and priority, so that millions make no difference.
select t.id::text, t.kind, t.queue, t.run_at, coalesce(t.error_code || ': ' || t.error_message, t.error_code)
from (
    with recursive queues as (
        (select r.queue from holdfast.ready r order by r.queue limit 1)
        union all
        select (select r.queue from holdfast.ready r where r.queue > q.queue order by r.queue limit 1) from queues q where q.queue is not null
    )
    select x.id, x.run_at
    from queues q
    cross join generate_series(0, 3) as p (priority)
    cross join lateral (
        select r.id, r.run_at from holdfast.ready r
        where r.queue = q.queue and r.priority = p.priority and r.run_at < now() - make_interval(secs => %(seconds)s::double precision)
        order by r.run_at, r.id
        limit %(limit)s
    ) x
) o
join holdfast.tasks t on t.id = o.id
order by t.run_at
limit %(limit)s;


-- name: has_row
-- Whether a task is failed, cancelled or paused, and whether it has a row where claims and operators look for one.
select
    t.mark is not null,
    {has_row}
from holdfast.tasks t
where t.id = %(id)s::uuid;


-- name: why
-- What stands in the way of one task that is queued.
select
    {has_row}, r.id is not null, r.run_at, r.run_at > now(), w.bucket,
    k.paused_at, k.paused_by, k.pause_reason, k.paused_until, k.unserved_at,
    q.paused_at, q.paused_by, q.pause_reason, q.paused_until,
    exists (
        select from holdfast.workers l
        where l.lost_at is null and l.lease_expires_at > now() and t.queue = any (l.queues)
    ),
    exists (
        select from holdfast.workers l
        where l.lost_at is null and l.lease_expires_at > now() and t.queue = any (l.queues) and t.kind = any (l.kinds)
    ),
    (
        select count(*) from (
            select from holdfast.ready o
            where o.queue = r.queue and (o.priority, o.run_at, o.id) < (r.priority, r.run_at, r.id) and o.run_at <= now()
            limit 10000
        ) ahead
    ),
    (
        select count(*) from (
            select from holdfast.blocked o
            where o.bucket = w.bucket and (o.priority, o.position, o.id) < (w.priority, w.position, w.id)
            limit 10000
        ) ahead
    ),
    -- After others: how many of them have not ended, and one of those.
    (
        select json_build_array(count(*), min(e.id::text)) from holdfast.followups f
        cross join lateral unnest(f.predecessors) as u (id)
        join holdfast.tasks e on e.id = u.id and (e.mark is null or e.mark = 'paused')
        where f.task_id = t.id and f.released_at is null
    ),
    -- In a lane: the first task that has to end, or be dealt with, before this one starts.
    (
        select e.id::text || ' (' || coalesce(e.mark, case when exists (select from holdfast.running x where x.id = e.id) then 'running' else 'queued' end) || ')'
        from holdfast.tasks e
        where e.bucket = t.bucket and e.position < t.position
            and (e.mark is null or t.bucket like 'lane!:%%' and e.mark in ('failed', 'paused'))
        order by e.position
        limit 1
    ),
    -- Every limit that it counts against: its name, capacity, rate, and who holds its permits.
    (
        select coalesce(json_agg(json_build_array(
            x.name, b.capacity, b.rate_count, b.rate_seconds, extract(epoch from f.spent_until - now()) * b.rate_count / b.rate_seconds > b.rate_ahead - 1,
            (
                select json_object_agg(coalesce(o.name, 'gone') || ' ' || left(s.worker::text, 13), s.permits)
                from holdfast.permits s left join holdfast.workers o on o.id = s.worker
                where s.bucket = x.name
            )
        )), '[]')
        from (
            values ('kind:' || t.kind, 'kind:' || t.kind), ('queue:' || t.queue, 'queue:' || t.queue),
                (t.bucket, case when exists (select from holdfast.buckets o where o.name = t.bucket) then t.bucket else split_part(t.bucket, '=', 1) || '=*' end)
        ) as x (name, rule)
        join holdfast.buckets b on b.name = x.rule
        left join holdfast.rates f on f.bucket = x.name
        where b.capacity is not null or b.rate_count is not null
    )
from holdfast.tasks t
left join holdfast.ready r on r.queue = t.queue and r.priority = t.priority and r.run_at = t.run_at and r.id = t.id
left join holdfast.blocked w on w.id = t.id
left join holdfast.buckets k on k.kind = t.kind
left join holdfast.queues q on q.name = t.queue
where t.id = %(id)s::uuid;
