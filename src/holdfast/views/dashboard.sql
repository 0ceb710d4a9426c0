-- What the board shows: what ended when, what is usual, what is new. One statement here writes, once a minute.

-- name: count_some_kinds
-- The same of so many at most: where they are more, a sample tells.
select x.kind, count(*) filter (where not x.later), count(*) filter (where x.later)
from (
    (select r.kind, r.run_at > now() as later from holdfast.ready r limit %(most)s::integer + 1)
    union all
    (select w.kind, false from holdfast.blocked w limit %(most)s::integer + 1)
) x
group by x.kind;


-- name: running_kinds
-- Reads at most `most` + 1 rows, so that the board knows that there are more without counting them all.
select t.kind, count(*)
from (select r.id from holdfast.running r limit %(most)s::integer + 1) f
cross join {tasks_found}
group by t.kind;


-- name: note_queues
-- What was counted, and nothing of queues that are served or known and had nothing.
with counted as materialized (
    select c.queue, c.waiting, c.oldest
    from unnest(%(queues)s::text[], %(waiting)s::bigint[], %(oldest)s::real[]) as c (queue, waiting, oldest)
), names as (
    select c.queue from counted c
    union select q.name from holdfast.queues q
    union select u.queue from holdfast.workers w cross join unnest(w.queues) u (queue) where w.lost_at is null
)
insert into holdfast.queue_minutes (minute, queue, waiting, oldest_seconds, counted_at)
select date_trunc('minute', now()), n.queue, coalesce(c.waiting, 0), c.oldest, %(counted_at)s::timestamptz
from names n
left join counted c on c.queue = n.queue
-- Somebody may have made up thousands of names.
order by coalesce(c.waiting, 0) desc, n.queue
limit %(queues_max)s::integer
on conflict do nothing;


-- name: queue_trends
-- What waited five minutes ago and a minute ago, or a little before, when that was counted, and how old the oldest usually
-- is: the median of a day.
select q.name, f.then, l.then,
    (
        select percentile_disc(0.5) within group (order by coalesce(m.oldest_seconds, 0))
        from holdfast.queue_minutes m
        where m.queue = q.name and m.minute > now() - interval '1 day'
    )::double precision
from unnest(%(queues)s::text[]) as q (name)
left join lateral (
    select json_build_array(m.waiting, extract(epoch from now() - m.minute), m.counted_at) as then
    from holdfast.queue_minutes m
    where m.queue = q.name and m.minute between now() - interval '10 minutes' and now() - interval '4 minutes'
    order by m.minute desc
    limit 1
) f on true
left join lateral (
    select json_build_array(m.waiting, extract(epoch from now() - m.minute), m.counted_at) as then
    from holdfast.queue_minutes m
    where m.queue = q.name and m.minute between now() - interval '4 minutes' and now() - interval '50 seconds'
    order by m.minute desc
    limit 1
) l on true;


-- name: series
-- What ended in each stretch of time, by outcome; a stretch without anything is not there.
select date_bin(make_interval(secs => %(step)s::double precision), x.at, timestamptz 'epoch') as at,
    sum(x.tasks) filter (where x.ended_as = 'complete')::bigint,
    sum(x.tasks) filter (where x.ended_as in ('retry', 'reclaim'))::bigint,
    sum(x.tasks) filter (where x.ended_as = 'fail')::bigint
from (
    select m.minute as at, m.ended_as, m.tasks from holdfast.settled_minutes m where m.minute >= now() - make_interval(secs => %(seconds)s::double precision)
    union all
    select d.settled_at, d.ended_as, d.tasks from holdfast.settled_deltas d where d.settled_at >= now() - make_interval(secs => %(seconds)s::double precision)
) x
where x.ended_as in ('complete', 'retry', 'reclaim', 'fail')
group by 1
order by 1;


-- name: ended_by_kind
-- What ended in the last hour, by kind, with the time that it ran.
select x.kind,
    coalesce(sum(x.tasks) filter (where x.ended_as = 'complete'), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.ended_as in ('retry', 'reclaim')), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.ended_as = 'fail'), 0)::bigint,
    sum(x.run_seconds) filter (where x.ended_as = 'complete') / nullif(sum(x.tasks) filter (where x.ended_as = 'complete'), 0)
from (
    select m.kind, m.ended_as, m.tasks, m.run_seconds from holdfast.settled_minutes m where m.minute > now() - interval '1 hour'
    union all
    select d.kind, d.ended_as, d.tasks, d.run_seconds from holdfast.settled_deltas d where d.settled_at > now() - interval '1 hour'
) x
group by x.kind
order by x.kind;


-- name: compared
-- Now beside what is usual: ended in a quarter of an hour and failed among them, the same a day ago; failed and refused in the
-- last hour, and failed in an hour of the day before it.
select
    coalesce(sum(x.tasks) filter (where x.at > now() - interval '15 minutes' and x.ended_as in ('complete', 'fail')), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.at > now() - interval '15 minutes' and x.ended_as = 'fail'), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.at between now() - interval '25 hours' and now() - interval '24 hours' and x.ended_as in ('complete', 'fail')), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.at between now() - interval '25 hours' and now() - interval '24 hours' and x.ended_as = 'fail'), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.at > now() - interval '1 hour' and x.ended_as = 'fail'), 0)::bigint,
    coalesce(sum(x.tasks) filter (where x.at > now() - interval '1 hour' and x.ended_as = 'late'), 0)::bigint,
    (coalesce(sum(x.tasks) filter (where x.at between now() - interval '25 hours' and now() - interval '1 hour' and x.ended_as = 'fail'), 0) / 24.0)::double precision,
    coalesce(min(x.at) < now() - interval '24 hours', false),
    (select max(d.settled_at) from holdfast.settled_deltas d where d.ended_as <> 'late')
from (
    select m.minute as at, m.ended_as, m.tasks from holdfast.settled_minutes m where m.minute > now() - interval '25 hours'
    union all
    select d.settled_at, d.ended_as, d.tasks from holdfast.settled_deltas d
) x;


-- name: changes
-- What was new lately: releases, workers that were lost, causes that were met for the first time.
(
    select r.first_seen_at as at, 'release' as what, r.release as name, null as detail, null as kind
    from holdfast.releases r where r.first_seen_at > now() - make_interval(secs => %(seconds)s::double precision)
    order by r.first_seen_at desc limit %(limit)s
)
union all
(
    select w.lost_at, 'worker_lost', w.name, w.release, null
    from holdfast.workers w where w.lost_at > now() - make_interval(secs => %(seconds)s::double precision)
    order by w.lost_at desc limit %(limit)s
)
union all
(
    select g.first_seen_at, 'group_new', coalesce(g.message, g.error_code), g.fingerprint, g.kind
    from holdfast.failure_groups g where g.first_seen_at > now() - make_interval(secs => %(seconds)s::double precision)
    order by g.first_seen_at desc limit %(limit)s
)
order by 1 desc
limit %(limit)s;


-- name: lost
-- How many workers were lost in a day, and when the last was.
select count(*), max(w.lost_at) from holdfast.workers w where w.lost_at > now() - interval '1 day';


-- name: paused_kinds
-- The overview lists paused kinds even if nothing of them waits: a forgotten pause has to be found.
select b.kind, b.paused_at, b.paused_by, b.pause_reason, b.paused_until
from holdfast.buckets b where b.kind is not null and b.paused_at is not null;


-- name: database
-- Shown beside the figures, so that nobody mistakes one deployment or a replica for another.
select current_database(), host(inet_server_addr()), inet_server_port(), pg_is_in_recovery(), current_setting('server_version'),
    (select max(m.number) from holdfast.migrations m), now();
