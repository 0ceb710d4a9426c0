-- Plans: a frozen set of dead letters, and how far an operator's wish has come with it.
-- What they do to tasks is in store/plan_items.sql.

-- name: freeze
-- Makes a plan of everything that the filter finds and nothing forbids. The first of a canary are spread
-- evenly over the whole set; behind them the oldest goes first.
with spoken_for as materialized (
    select distinct on (i.task_id) i.task_id, 'in plan ' || o.id as why
    from holdfast.plans o
    join holdfast.plan_items i on i.plan_id = o.id and i.place >= o.next_place
    where o.state in ('running', 'paused')
    order by i.task_id, o.created_at
), found as materialized (
    select t.id, t.marked_at, t.fingerprint, coalesce(%(vetoes)s::jsonb ->> t.id::text, s.why) as excluded
    from holdfast.tasks t
    left join spoken_for s on s.task_id = t.id
    where {dead_letters}
    order by t.marked_at, t.id
    limit %(limit)s::bigint
), numbered as (
    select f.id, f.marked_at, f.fingerprint, row_number() over (order by f.marked_at, f.id) as nth, count(*) over () as total
    from found f
    where f.excluded is null
), ordered as (
    select n.id, n.marked_at, n.fingerprint,
        row_number() over (order by case when %(canary)s::bigint > 0 and mod((n.nth - 1) * %(canary)s::bigint, n.total) < %(canary)s::bigint then 0 else 1 end, n.nth)::integer as place
    from numbered n
), items as (
    insert into holdfast.plan_items (plan_id, place, task_id, marked_at, fingerprint)
    select %(plan)s::uuid, o.place, o.id, o.marked_at, o.fingerprint from ordered o
    returning place, task_id, marked_at
), made as (
    select count(*)::integer as items, coalesce(md5(string_agg(i.task_id::text || i.marked_at::text, ',' order by i.place)), '') as set_hash from items i
), excluded as (
    select coalesce(jsonb_object_agg(e.excluded, e.tasks), '{}') as reasons
    from (select f.excluded, count(*) as tasks from found f where f.excluded is not null group by 1) e
)
insert into holdfast.plans (
    id, action, state, created_at, created_by, reason, filter, items, set_hash, excluded, money_effect, expires_at, canary, rate, stop_ratio, needs_approval
)
select
    %(plan)s::uuid, %(action)s::text, 'frozen', now(), %(by)s::text, %(because)s::text, %(filter)s::jsonb, m.items, m.set_hash, e.reasons, %(money)s::numeric,
    now() + make_interval(secs => %(expires_seconds)s::double precision), least(%(canary)s::bigint, m.items), %(rate)s::double precision, %(stop_ratio)s::double precision, m.items > %(approval_above)s::integer
from made m
cross join excluded e
returning items;


-- name: plans
-- Whether a plan has expired is decided by the clock of the database, as when it is approved.
select p.*, p.state = 'frozen' and p.expires_at <= now() as expired
from holdfast.plans p
where %(id)s::uuid is null or p.id = %(id)s::uuid
order by p.created_at desc
limit %(limit)s;


-- name: drift
-- What has changed since the plan was made.
select coalesce(x.drift, 'as it was'), count(*)
from (
    select case
        when t.id is null then 'gone'
        when t.mark is null then 'back at work'
        when t.marked_at <> i.marked_at then 'failed anew'
        when t.mark not in ('failed', 'cancelled') then t.mark
    end as drift
    from holdfast.plan_items i
    left join holdfast.tasks t on t.id = i.task_id
    where i.plan_id = %(plan)s::uuid
) x
group by 1;


-- name: skips_of_plan
-- Grouped by reason: a plan may skip more tasks than anybody reads one by one.
select s.reason, count(*) from holdfast.plan_skips s where s.plan_id = %(plan)s::uuid group by 1 order by 2 desc;


-- name: approve
-- By a second person: another token, or where the plan was made without one another database login. Names have to differ
-- as well, though they prove nothing.
update holdfast.plans p
set approved_by = %(by)s, approved_at = now()
from holdfast.proven_identity() me
where p.id = %(plan)s::uuid and p.state = 'frozen' and p.needs_approval and p.approved_by is null and p.expires_at > now()
    and lower(btrim(p.created_by)) <> lower(btrim(%(by)s))
    and case when me.token is not null then me.token is distinct from p.created_token else p.created_token is null and me.login <> p.created_login end
returning p.items;


-- name: start
-- Only one who asks gets an answer.
update holdfast.plans p
set state = 'running', started_by = %(by)s, started_at = clock_timestamp(), ramp_from = case when p.canary = 0 then clock_timestamp() end
where p.id = %(plan)s::uuid and p.state = 'frozen' and p.expires_at > now() and (not p.needs_approval or p.approved_by is not null)
returning p.items, p.action;


-- name: pause_plan
-- Answers only if the plan was running, so that a plan that ended in the meantime stays ended.
update holdfast.plans p set state = 'paused' where p.id = %(plan)s::uuid and p.state = 'running' returning p.items;


-- name: resume_plan
-- What was sent before the pause is not made up for.
update holdfast.plans p
set state = 'running', ramp_from = case when p.ramp_from is not null then clock_timestamp() end, ramp_sent = 0
where p.id = %(plan)s::uuid and p.state = 'paused'
returning p.items;


-- name: end_plan
-- Nothing more is sent; what was sent is followed to its end. Only one who asks gets an answer.
update holdfast.plans p
set state = %(state)s, ended_at = clock_timestamp(), ended_why = %(why)s, followed_at = case when p.action = 'forget' or p.sent = 0 then clock_timestamp() end
where p.id = %(plan)s::uuid and p.state = any (%(states)s::text[]) and (%(state)s <> 'finished' or p.next_place > p.items)
returning p.action, p.items, p.sent, p.skipped, coalesce(p.started_by, p.created_by), p.reason;


-- name: ramp
-- Starts the ramp once, when the canary has passed, so that its rate is measured from that moment.
update holdfast.plans p set ramp_from = clock_timestamp(), ramp_sent = 0
where p.id = %(plan)s::uuid and p.state = 'running' and p.ramp_from is null;


-- name: step
-- What a driver has to know of its plan.
select
    p.action, p.state, p.items, p.canary, p.rate, p.stop_ratio, p.next_place, p.sent,
    p.succeeded + p.failed_same + p.failed_anew + p.cancelled + p.gone, p.failed_same + p.failed_anew, p.followed_at is not null,
    case when p.ramp_from is not null then floor(coalesce(p.rate, 0) * extract(epoch from clock_timestamp() - p.ramp_from))::bigint - p.ramp_sent end,
    (select count(*) from holdfast.plan_skips s where s.plan_id = p.id and s.place <= p.canary)::integer,
    c.ended, c.failed
from holdfast.plans p
cross join lateral (
    select count(*)::integer as ended, (count(*) filter (where o.outcome in ('failed_same', 'failed_anew')))::integer as failed
    from holdfast.plan_outcomes o
    where o.plan_id = p.id and o.place <= p.canary
) c
where p.id = %(plan)s::uuid;


-- name: next_items
-- The next items of guarded kinds, for their guards to look at.
with found as materialized (
    select i.task_id as id
    from holdfast.plan_items i
    where i.plan_id = %(plan)s::uuid and i.place >= %(place)s and i.place < %(place)s + %(count)s
)
select t.id::text, t.kind, t.payload::text, t.version, t.subject, t.error_code
from found f
cross join {tasks_found}
where t.kind = any (%(kinds)s::text[]);


-- name: guarded
-- All that a filter finds of guarded kinds, page by page.
select t.id::text, t.kind, t.payload::text, t.version, t.subject, t.error_code
from holdfast.tasks t
where {dead_letters}
    and t.kind = any (%(kinds)s::text[])
    and (%(after)s::uuid is null or t.id > %(after)s::uuid)
order by t.id
limit %(limit)s;


-- name: follow
-- How the next lives of a stretch of items ended, of those that have ended. Answers where the stretch ends, and the first
-- item in it that is still open.
with plan as materialized (
    select p.id, p.next_place, p.started_at, p.followed_to
    from holdfast.plans p
    where p.id = %(plan)s::uuid and p.followed_at is null
    for update
), stretch as materialized (
    select i.place, i.task_id, i.fingerprint
    from plan p
    join holdfast.plan_items i on i.plan_id = p.id and i.place >= greatest(%(place)s, p.followed_to) and i.place < p.next_place
    where not exists (select from holdfast.plan_skips s where s.plan_id = p.id and s.place = i.place)
        and not exists (select from holdfast.plan_outcomes o where o.plan_id = p.id and o.place = i.place)
    order by i.place
    limit %(count)s
), looked as materialized (
    select s.place, s.task_id,
        case
            when t.mark = 'cancelled' then 'cancelled'
            when t.mark = 'failed' and t.fingerprint = s.fingerprint then 'failed_same'
            when t.mark = 'failed' then 'failed_anew'
            when t.id is not null then null
            when h.id is not null then 'succeeded'
            else 'gone'
        end as outcome,
        coalesce(t.marked_at, h.finished_at, now()) as ended_at
    from stretch s
    cross join plan p
    left join lateral (select c.id, c.mark, c.marked_at, c.fingerprint from holdfast.tasks c where c.id = s.task_id offset 0) t on true
    left join lateral (
        select c.id, c.finished_at from holdfast.task_history c
        where t.id is null and c.id = s.task_id and c.finished_at >= p.started_at and c.finished_at <= now() + interval '1 hour'
        limit 1
    ) h on true
), ended as (
    insert into holdfast.plan_outcomes (plan_id, place, task_id, outcome, ended_at)
    select p.id, l.place, l.task_id, l.outcome, l.ended_at from looked l cross join plan p where l.outcome is not null
    returning outcome
), sums as (
    select
        count(*) filter (where e.outcome = 'succeeded') as succeeded, count(*) filter (where e.outcome = 'failed_same') as failed_same,
        count(*) filter (where e.outcome = 'failed_anew') as failed_anew, count(*) filter (where e.outcome = 'cancelled') as cancelled,
        count(*) filter (where e.outcome = 'gone') as gone
    from ended e
), seen as (
    select
        count(*) as looked_at, coalesce(max(l.place) + 1, (select o.next_place from plan o)) as up_to,
        min(l.place) filter (where l.outcome is null) as first_open
    from looked l
), moved as (
    update holdfast.plans p
    set succeeded = p.succeeded + s.succeeded, failed_same = p.failed_same + s.failed_same, failed_anew = p.failed_anew + s.failed_anew,
        cancelled = p.cancelled + s.cancelled, gone = p.gone + s.gone,
        followed_to = case when %(place)s <= p.followed_to then coalesce(n.first_open, n.up_to) else p.followed_to end
    from sums s
    cross join seen n
    where p.id = (select o.id from plan o)
)
select n.looked_at::integer, n.up_to::integer, (select count(*) from ended)::integer from seen n;


-- name: followed
-- Every item that was sent has ended.
update holdfast.plans p
set followed_at = clock_timestamp()
where p.id = %(plan)s::uuid and p.ended_at is not null and p.followed_at is null
    and p.sent <= p.succeeded + p.failed_same + p.failed_anew + p.cancelled + p.gone
returning p.id::text;
