-- What plans do to their items: redrive and forget, with an audit entry for each.


-- shared: next_items
-- The next items of a plan, for whoever finds it where it is thought to be, and locks it.
xid as materialized (
    select pg_current_xact_id() as number
), plan as materialized (
    select p.id, p.action, p.next_place, p.started_by, p.reason
    from holdfast.plans p
    where p.id = %(plan)s::uuid and p.state = 'running' and p.next_place = %(place)s
    for update
), taken as materialized (
    select i.place, i.task_id, i.marked_at, %(vetoes)s::jsonb ->> i.task_id::text as veto
    from xid
    cross join plan p
    join holdfast.plan_items i on i.plan_id = p.id and i.place >= p.next_place and i.place < p.next_place + %(count)s
    where xid.number is not null
)


-- shared: items_dealt_with
-- Those that were not changed say why, each has its entry in the audit, and the plan says how far it is.
skipped as (
    insert into holdfast.plan_skips (plan_id, place, task_id, reason)
    select p.id, i.place, i.task_id, coalesce(
        'vetoed: ' || i.veto,
        (
            select case
                when t.mark is null then 'it is back at work already'
                when t.marked_at <> i.marked_at then 'it has failed anew since'
                when {has_row} then 'it still has a row in ready, blocked or running: run `holdfast doctor --repair --reason …`'
                -- It is as it was, so somebody else has written to it at this moment: all of this is tried again.
                when t.mark in ('failed', 'cancelled') and holdfast.require_moved(1, 0) then null
                else 'it is ' || t.mark
            end
            from holdfast.tasks t where t.id = i.task_id
        ),
        'it is gone'
    )
    from plan p
    cross join taken i
    where not exists (select from changed c where c.place = i.place)
    returning place, task_id, reason
), noted as (
    select holdfast.note_items(
        max(p.action), max(p.started_by), max(p.reason), max(p.id::text)::uuid,
        array_agg(x.what), array_agg(x.id), array_agg(x.kind), array_agg(x.subject), array_agg(x.trace_id), array_agg(x.details)
    ) as chunk
    from plan p
    cross join (
        select 'ITEM', c.id, c.kind, c.subject, c.trace_id, case when c.error_code is not null then jsonb_build_object('code', c.error_code) end from changed c
        union all
        select 'SKIPPED', s.task_id, t.kind, t.subject, t.trace_id, jsonb_build_object('because', s.reason)
        from skipped s left join holdfast.tasks t on t.id = s.task_id
    ) as x (what, id, kind, subject, trace_id, details)
    having count(*) > 0
), counted as (
    select (select count(*) from changed)::integer as changed, (select count(*) from skipped)::integer as skipped
), moved as (
    update holdfast.plans p
    set next_place = p.next_place + c.changed + c.skipped,
        sent = p.sent + c.changed,
        skipped = p.skipped + c.skipped,
        gone = p.gone + case when p.action = 'forget' then c.changed else 0 end,
        ramp_sent = p.ramp_sent + case when p.ramp_from is null then 0 else c.changed end
    from counted c
    -- A function that nobody reads the answer of is not called.
    where p.id = (select o.id from plan o) and (select count(n.chunk) from noted n) >= 0
)
select c.changed, c.skipped, array(select distinct x.bucket from changed x where x.position is not null) from counted c;


-- name: redrive_items
-- The next items of a plan go back to work, each at most once: the plan's row is locked, and how far it has
-- come is written in the same commit. What is not as it was when the plan was frozen is left alone.
with {next_items}, changed as (
    update holdfast.tasks t
    set {begun_anew} last_replayed_by = p.started_by, last_replay_reason = p.reason,
        run_at = {due_from}
    from plan p
    cross join taken i
    cross join lateral (
        select
            t.ctid as place,
            {has_row} as has_row
        from holdfast.tasks t where t.id = i.task_id offset 0
    ) x
    where t.ctid = x.place and t.mark in ('failed', 'cancelled') and t.marked_at = i.marked_at and i.veto is null and not x.has_row
    returning i.place, t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position, t.subject, t.trace_id, null::text as error_code
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
), {items_dealt_with}


-- name: forget_items
-- The same for a plan that lets dead letters go for good.
with {next_items}, changed as (
    delete from holdfast.tasks t
    using taken i
    cross join lateral (
        select c.ctid as place from holdfast.tasks c where c.id = i.task_id offset 0
    ) x
    where t.ctid = x.place and t.mark in ('failed', 'cancelled') and t.marked_at = i.marked_at
    returning i.place, t.id, t.kind, t.key, t.subject, t.trace_id, t.error_code, t.bucket, t.position
), {traces_forgotten}, {items_dealt_with}
