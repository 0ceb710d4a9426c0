-- Schedules as code declares them and people pause them; the tasks that they make go through the one door.


-- shared: schedule_columns
-- A schedule as `schedules.ScheduleView` has it.
s.name, s.kind, s.queue, s.version, s.expression, s.zone, s.payload::text, s.bucket, s.missed, s.most, s.jitter_seconds,
    s.next_at, s.caught_up_to, s.last_tick_at, s.declared_at, s.paused_at, s.paused_by, s.pause_reason, s.failed_at


-- name: declare
-- The next tick stays as it is, unless the expression or its zone is another now.
insert into holdfast.schedules as s (
    name, kind, queue, version, expression, zone, payload, bucket, missed, most, jitter_seconds, next_at, caught_up_to, declared_at
)
values (
    %(name)s, %(kind)s, %(queue)s, %(version)s, %(expression)s, %(zone)s, %(payload)s::jsonb, %(bucket)s, %(missed)s, %(most)s, %(jitter)s,
    %(next_at)s, %(now)s, now()
)
on conflict (name) do update
set kind = excluded.kind, queue = excluded.queue, version = excluded.version, expression = excluded.expression, zone = excluded.zone,
    payload = excluded.payload, bucket = excluded.bucket, missed = excluded.missed, most = excluded.most, jitter_seconds = excluded.jitter_seconds,
    next_at = case when (s.expression, s.zone) = (excluded.expression, excluded.zone) then s.next_at else excluded.next_at end,
    -- The ticks of other times that have passed were never missed.
    caught_up_to = case when (s.expression, s.zone) = (excluded.expression, excluded.zone) then s.caught_up_to
        else greatest(s.caught_up_to, excluded.caught_up_to) end,
    failed_at = case when (s.expression, s.zone) = (excluded.expression, excluded.zone) then s.failed_at end,
    declared_at = excluded.declared_at;


-- name: pulse
-- What the clock says, and in how many seconds the next tick of a schedule comes; one that could not be fired waits.
select n.now, (
    select extract(epoch from min(
        case when s.failed_at between n.now - w.wait and n.now then greatest(s.next_at, s.failed_at + w.wait)
            else greatest(s.next_at, s.caught_up_to) end
    ) - n.now)::double precision
    from holdfast.schedules s
    where s.paused_at is null
)
from (select coalesce(%(now)s::timestamptz, clock_timestamp()) as now) n
cross join (select make_interval(secs => %(wait)s::double precision) as wait) w;


-- name: due
-- Whoever locks a schedule fires it; the others pass it over. While the clock is behind what has been dealt with, because it
-- was put back, nothing fires twice. One that could not be fired is left alone for `wait` seconds (a failure that lies
-- ahead of the clock was before it was put back). With `failed` only those are looked at.
select {schedule_columns}
from holdfast.schedules s
where s.next_at <= %(now)s and s.caught_up_to <= %(now)s and s.paused_at is null
    and case when s.failed_at is null then not %(failed)s::boolean
        else s.failed_at not between %(now)s - make_interval(secs => %(wait)s::double precision) and %(now)s end
order by s.next_at, s.name
limit %(limit)s
for update skip locked;


-- name: fired
-- Every tick up to this moment is dealt with, whether it fired, was made up for or was skipped.
update holdfast.schedules s
set next_at = u.next_at, last_tick_at = coalesce(u.last_at, s.last_tick_at), caught_up_to = greatest(s.caught_up_to, %(now)s), failed_at = null
from unnest(%(names)s::text[], %(nexts)s::timestamptz[], %(lasts)s::timestamptz[]) as u (name, next_at, last_at)
where s.name = u.name;


-- name: not_fired
-- The next tick stays where it is, so that another host makes up for it.
update holdfast.schedules s
set failed_at = %(now)s
where s.name = any (%(names)s::text[]);


-- name: correct
-- A next tick that is not the right one, unless somebody has just moved it.
update holdfast.schedules s
set next_at = u.next_at
from unnest(%(names)s::text[], %(seen)s::timestamptz[], %(nexts)s::timestamptz[]) as u (name, seen, next_at)
where s.name = u.name and s.next_at = u.seen and s.paused_at is null
returning s.name;


-- name: list
-- For people, and for those who look whether the next tick of each is the right one.
select {schedule_columns}
from holdfast.schedules s
where %(name)s::text is null or s.name = %(name)s
order by s.name;


-- name: pause
-- Records who paused it and why, for whoever finds it paused later. A second pause replaces both.
update holdfast.schedules s
set paused_at = now(), paused_by = %(by)s, pause_reason = %(reason)s
where s.name = %(name)s
returning s.name;


-- name: resume
-- What would have fired meanwhile was not missed: it was paused. It begins anew, wherever the clock was before.
update holdfast.schedules s
set paused_at = null, paused_by = null, pause_reason = null, next_at = %(next_at)s, caught_up_to = %(now)s, failed_at = null
where s.name = %(name)s and s.paused_at is not null
returning s.name;


-- name: remove
-- Answers the name only if there was such a schedule, so that a mistyped name is reported.
delete from holdfast.schedules s where s.name = %(name)s returning s.name;
