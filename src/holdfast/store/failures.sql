-- Dead letters, found by what people know of them; the groups that they fall into; what they have in common.
-- Nothing here moves a task.


-- shared: dead_looked_at
-- Dead letters of a state by an index, so many at most where that is asked for: the rest of what is asked may be rare.
select t.* from holdfast.tasks t
        where t.mark = s.state
            and (%(subject)s::text is null or t.subject = %(subject)s)
            and (%(kind)s::text is null or t.kind = %(kind)s)
            and (%(trace)s::text is null or t.trace_id = %(trace)s)
            and (%(fingerprint)s::text is null or t.fingerprint = %(fingerprint)s)
            and (%(ids)s::uuid[] is null or t.id = any (%(ids)s::uuid[]))
            and (%(since)s::timestamptz is null or t.marked_at >= %(since)s::timestamptz)
            and (%(until)s::timestamptz is null or t.marked_at < %(until)s::timestamptz)
            and {marked_before}
        order by t.marked_at desc, t.id desc
        limit %(look)s


-- name: dead
-- A page of dead letters, the newest first; each state in the order of its index.
select
    t.id::text, t.kind, t.queue, t.mark as state, t.attempts, t.subject, t.trace_id, t.enqueued_at, t.marked_at,
    t.dead_reason, t.failure_class, t.error_code, coalesce(t.error_message, t.mark_reason), t.fingerprint,
    t.replay_count, t.last_replayed_at, t.last_replayed_by, t.last_replay_reason
from unnest(%(states)s::text[]) as s (state)
cross join lateral (
    select t.* from ({dead_looked_at}) t
    where {dead_letters}
    order by t.marked_at desc, t.id desc
    limit %(limit)s::bigint + %(offset)s::bigint
) t
order by t.marked_at desc, t.id desc
limit %(limit)s
offset %(offset)s;


-- name: dead_edge
-- The last one that such a look comes to in the first of the states, where there may be more below it.
select t.id::text
from unnest((%(states)s::text[])[:1]) as s (state)
cross join lateral (select t.* from ({dead_looked_at}) t order by t.marked_at desc, t.id desc offset %(look)s - 1 limit 1) t;


-- name: breakdown
-- How many there are of each sort.
select t.kind, t.dead_reason, t.failure_class, t.error_code, t.fingerprint, count(*), min(t.marked_at), max(t.marked_at)
from holdfast.tasks t
where {dead_letters}
group by 1, 2, 3, 4, 5
order by 6 desc;


-- name: breakdown_of_some
-- The same of so many at most. Apart, because a bound keeps the server from counting with several processes.
select t.kind, t.dead_reason, t.failure_class, t.error_code, t.fingerprint, count(*), min(t.marked_at), max(t.marked_at)
from (
    select t.kind, t.dead_reason, t.failure_class, t.error_code, t.fingerprint, t.marked_at
    from holdfast.tasks t
    where {dead_letters}
    limit %(most)s::bigint
) t
group by 1, 2, 3, 4, 5
order by 6 desc;


-- name: by_subject
-- The subjects with the most dead letters.
select t.subject, count(*)
from (
    select t.subject from holdfast.tasks t
    where t.mark = 'failed' and t.subject is not null
    limit %(most)s::bigint
) t
group by 1
order by 2 desc, 1
limit %(limit)s;


-- name: edits
-- What the payload of a task was before it was changed.
select e.edited_at, e.edited_by, e.reason, e.version, e.payload::text
from holdfast.task_edits e
where e.task_id = %(id)s::uuid
order by e.edited_at;


-- name: payload_hash
-- By which a change of somebody else is noticed.
select md5(t.payload::text) from holdfast.tasks t where t.id = %(id)s::uuid;


-- name: groups
-- Groups with how often and when last they were met; what was counted a moment ago is in the deltas.
with met as (
    select x.fingerprint, sum(x.failures)::bigint as failures, max(x.last_at) as last_at,
        coalesce(sum(x.failures) filter (where x.last_at > now() - interval '1 hour'), 0)::bigint as last_hour
    from (
        select h.fingerprint, h.failures, h.last_at from holdfast.failure_hours h
        where %(fingerprint)s::text is null or h.fingerprint = %(fingerprint)s
        union all
        select d.fingerprint, d.failures, d.failed_at from holdfast.failure_deltas d
        where %(fingerprint)s::text is null or d.fingerprint = %(fingerprint)s
    ) x
    group by x.fingerprint
), found as (
    select
        g.fingerprint, g.kind, g.failure_class, g.error_code, g.message, g.first_seen_at, m.last_at, coalesce(m.failures, 0) as failures,
        coalesce(m.last_hour, 0) as last_hour, d.dead,
        case
            when g.resolved_at is not null and m.last_at > g.resolved_at then 'regressed'
            when g.resolved_at is not null then 'resolved'
            when g.ignored_until > now() then 'ignored'
            else 'open'
        end as state,
        g.ignored_until, g.resolved_at, g.owner, g.note, g.changed_by, g.changed_at,
        array(
            select r.release from holdfast.failure_releases r where r.fingerprint = g.fingerprint order by r.first_at, r.release limit %(releases)s
        ) as releases
    from holdfast.failure_groups g
    left join met m on m.fingerprint = g.fingerprint
    cross join lateral (
        -- Of each no more than so many: a few causes have most of a million.
        select count(*) as dead from (
            select from holdfast.tasks t where t.fingerprint = g.fingerprint and t.mark = 'failed' limit %(most)s::integer + 1
        ) x
    ) d
    where %(fingerprint)s::text is null or g.fingerprint = %(fingerprint)s
)
select f.*
from found f
where (%(state)s::text is null or f.state = %(state)s) and (%(kind)s::text is null or f.kind = %(kind)s)
order by case when %(lately)s then f.last_hour end desc nulls last, f.dead desc, f.last_at desc nulls last
limit %(limit)s;


-- name: sparks
-- How often each of some causes was met in each of the last hours, the oldest first.
select f.fingerprint, array(
    select coalesce((
        select h.failures from holdfast.failure_hours h where h.fingerprint = f.fingerprint and h.hour = s.hour
    ), 0)
    from generate_series(date_trunc('hour', now()) - make_interval(hours => %(hours)s::integer - 1), now(), interval '1 hour') as s (hour)
    order by s.hour
)
from unnest(%(fingerprints)s::text[]) as f (fingerprint);


-- name: group_hours
-- How often a cause was met in each hour of the last days.
select h.hour, h.failures from holdfast.failure_hours h
where h.fingerprint = %(fingerprint)s and h.hour > now() - make_interval(days => %(days)s::integer)
order by h.hour;


-- name: set_group
-- What a person says of a cause; what is not said stays.
update holdfast.failure_groups g
set ignored_until = case when %(act)s = 'ignore' then %(until)s::timestamptz when %(act)s in ('resolve', 'reopen') then null else g.ignored_until end,
    resolved_at = case when %(act)s = 'resolve' then now() when %(act)s in ('ignore', 'reopen') then null else g.resolved_at end,
    note = coalesce(%(note)s, g.note),
    owner = coalesce(%(owner)s, g.owner),
    changed_by = %(by)s,
    changed_at = now()
where g.fingerprint = %(fingerprint)s
returning g.kind;


-- name: roll_up_failures
-- Adds what was met to its hour; answers how many rows that were, and which resolved causes were met again.
with taken as (
    delete from holdfast.failure_deltas d
    where d.ctid = any (array(select c.ctid from holdfast.failure_deltas c limit %(limit)s for update skip locked))
    returning d.*
), sums as (
    select t.fingerprint, date_trunc('hour', t.failed_at) as hour, sum(t.failures) as failures, max(t.failed_at) as last_at
    from taken t
    group by 1, 2
    order by 1, 2
), added as (
    insert into holdfast.failure_hours as h (fingerprint, hour, failures, last_at)
    select s.fingerprint, s.hour, s.failures, s.last_at from sums s
    on conflict (fingerprint, hour) do update
    set failures = h.failures + excluded.failures, last_at = greatest(h.last_at, excluded.last_at)
), released as (
    insert into holdfast.failure_releases as r (fingerprint, release, first_at, last_at)
    select t.fingerprint, t.release, min(t.failed_at), max(t.failed_at)
    from taken t
    where t.release is not null
    group by 1, 2
    order by 1, 2
    on conflict (fingerprint, release) do update
    set first_at = least(r.first_at, excluded.first_at), last_at = greatest(r.last_at, excluded.last_at)
)
select
    (select count(*) from taken)::integer,
    array(
        select distinct g.fingerprint from sums s join holdfast.failure_groups g on g.fingerprint = s.fingerprint
        where g.resolved_at < s.last_at
            and not exists (select from holdfast.failure_hours h where h.fingerprint = g.fingerprint and h.last_at > g.resolved_at)
    );


-- name: prune_failure_hours
-- Groups keep their totals; the hours and releases behind them would grow without end.
with releases as (
    delete from holdfast.failure_releases r where r.last_at < now() - make_interval(days => %(days)s::integer)
)
delete from holdfast.failure_hours h where h.hour < now() - make_interval(days => %(days)s::integer);


-- name: payloads_of_group
-- Of the tasks that fail for one cause, the latest: payloads of so many bytes at most, each and together.
select s.payload
from (
    select d.payload, sum(octet_length(d.payload)) over (order by d.place) as together
    from (
        -- Stored it is rarely larger: what is large is not even read.
        select case when pg_column_size(l.payload) <= %(bytes_each)s::integer then l.payload::text end as payload, l.place
        from (
            select t.payload, row_number() over (order by t.marked_at desc, t.id desc) as place
            from holdfast.tasks t
            where t.mark = 'failed' and t.fingerprint = %(fingerprint)s
            order by t.marked_at desc, t.id desc
            limit %(limit)s
        ) l
    ) d
    where octet_length(d.payload) <= %(bytes_each)s::integer
) s
where s.together <= %(bytes_max)s::bigint;


-- name: versions_of_group
-- A group may mix payloads of several versions, and an edit or a fix may suit only one of them.
select distinct t.version from holdfast.tasks t where t.mark = 'failed' and t.fingerprint = %(fingerprint)s order by 1;


-- name: payloads_of_successes
-- Of the tasks of the kind that completed, some of the latest, within the same bounds.
select s.payload
from (
    select d.payload, sum(octet_length(d.payload)) over (order by d.place) as together
    from (
        select case when pg_column_size(l.payload) <= %(bytes_each)s::integer then l.payload::text end as payload, l.place
        from (
            select h.payload, row_number() over (order by h.finished_at desc) as place
            from holdfast.task_history h
            where h.kind = %(kind)s and h.payload is not null
                and h.finished_at > now() - interval '2 days' and h.finished_at <= now() + interval '1 hour'
            order by h.finished_at desc
            limit %(limit)s
        ) l
    ) d
    where octet_length(d.payload) <= %(bytes_each)s::integer
) s
where s.together <= %(bytes_max)s::bigint;
