-- Schedules as code declares them and people pause them; the tasks that they make go through the one door.

-- name: declare
-- The next tick stays as it is, unless the expression or its zone is another now.
insert into holdfast.schedules as s (name, kind, queue, version, expression, zone, payload, bucket, missed, most, jitter_seconds, next_at, declared_at)
values (
    %(name)s, %(kind)s, %(queue)s, %(version)s, %(expression)s, %(zone)s, %(payload)s::jsonb, %(bucket)s, %(missed)s, %(most)s, %(jitter)s,
    %(next_at)s, now()
)
on conflict (name) do update
set kind = excluded.kind, queue = excluded.queue, version = excluded.version, expression = excluded.expression, zone = excluded.zone,
    payload = excluded.payload, bucket = excluded.bucket, missed = excluded.missed, most = excluded.most, jitter_seconds = excluded.jitter_seconds,
    next_at = case when (s.expression, s.zone) = (excluded.expression, excluded.zone) then s.next_at else excluded.next_at end,
    declared_at = excluded.declared_at;


-- name: due
-- Whoever locks a schedule fires it; the others pass it over.
select s.name, s.kind, s.queue, s.version, s.expression, s.zone, s.payload::text, s.bucket, s.missed, s.most, s.jitter_seconds, s.next_at
from holdfast.schedules s
where s.next_at <= %(now)s and s.paused_at is null
order by s.next_at, s.name
limit %(limit)s
for update skip locked;


-- name: fired
update holdfast.schedules s
set next_at = u.next_at, last_tick_at = coalesce(u.last_at, s.last_tick_at)
from unnest(%(names)s::text[], %(nexts)s::timestamptz[], %(lasts)s::timestamptz[]) as u (name, next_at, last_at)
where s.name = u.name;


-- name: list
select s.name, s.kind, s.queue, s.version, s.expression, s.zone, s.payload::text, s.bucket, s.missed, s.most, s.jitter_seconds, s.next_at,
    s.last_tick_at, s.declared_at, s.paused_at, s.paused_by, s.pause_reason
from holdfast.schedules s
where %(name)s::text is null or s.name = %(name)s
order by s.name;


-- name: pause
update holdfast.schedules s
set paused_at = now(), paused_by = %(by)s, pause_reason = %(reason)s
where s.name = %(name)s
returning s.name;


-- name: resume
-- What would have fired meanwhile was not missed: it was paused.
update holdfast.schedules s
set paused_at = null, paused_by = null, pause_reason = null, next_at = greatest(s.next_at, %(next_at)s)
where s.name = %(name)s and s.paused_at is not null
returning s.name;


-- name: remove
delete from holdfast.schedules s where s.name = %(name)s returning s.name;
