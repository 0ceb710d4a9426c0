-- What several statements have in common; `store/sql.py` puts it in where they say {name}.

-- piece: dead_letters
-- What `ops.dead.DeadFilter` asks for; the tasks that drive plans are nobody's dead letters.
t.mark = any (%(states)s::text[])
    and (%(subject)s::text is null or t.subject = %(subject)s)
    and (%(kind)s::text is null or t.kind = %(kind)s)
    and (%(queue)s::text is null or t.queue = %(queue)s)
    and (%(trace)s::text is null or t.trace_id = %(trace)s)
    and (%(reason)s::text is null or t.dead_reason = %(reason)s)
    and (%(code)s::text is null or t.error_code = %(code)s)
    and (%(fingerprint)s::text is null or t.fingerprint = %(fingerprint)s)
    and (%(since)s::timestamptz is null or t.marked_at >= %(since)s::timestamptz)
    and (%(until)s::timestamptz is null or t.marked_at < %(until)s::timestamptz)
    and (%(ids)s::uuid[] is null or t.id = any (%(ids)s::uuid[]))
    and t.queue <> 'holdfast'

-- piece: dead_looked_at
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

-- piece: marked_looked_at
-- No more than so many are looked at for a list, and those by an index: what it asks for beside that may be rare.
select t.* from holdfast.tasks t
    where t.mark = %(state)s
        and (%(kind)s::text is null or t.kind = %(kind)s)
        and (%(subject)s::text is null or t.subject = %(subject)s)
        and {marked_before}
    order by t.marked_at desc, t.id desc
    limit %(look)s

-- piece: alive_looked_at
-- The same of tasks that have not completed.
select t.* from holdfast.tasks t
    where (%(subject)s::text is null or t.subject = %(subject)s)
        and (%(before)s::uuid is null or t.id < %(before)s::uuid)
    order by t.id desc
    limit %(look)s

-- piece: running_looked_at
-- Of those that run.
select r.id from holdfast.running r where %(before)s::uuid is null or r.id < %(before)s::uuid order by r.id desc limit %(look)s

-- piece: completed_looked_at
-- And of those that have completed.
select h.* from holdfast.task_history h where %(before)s::uuid is null or h.id < %(before)s::uuid order by h.id desc limit %(look)s

-- piece: marked_before
-- Below a task in a list of marked ones, the newest first.
(
        %(before)s::uuid is null
        or (t.marked_at, t.id) < ((select b.marked_at from holdfast.tasks b where b.id = %(before)s::uuid), %(before)s::uuid)
    )

-- piece: entries_looked_at
-- The newest entries, or those of a task or a batch; so many at most, where that is asked for.
select a.* from holdfast.audit_log a
    where (%(batch)s::uuid is null or a.batch_id = %(batch)s::uuid)
        and (%(task)s::uuid is null or a.task_id = %(task)s::uuid)
        and (%(before_chunk)s::bigint is null or (a.chunk, a.place) < (%(before_chunk)s::bigint, %(before_place)s::integer))
    order by a.chunk desc, a.place desc
    limit %(look)s

-- piece: audit_entries
-- What `core.audit.EntryFilter` asks for.
(%(action)s::text is null or a.action = %(action)s)
    and (%(actor)s::text is null or a.actor = %(actor)s)
    and (%(subject)s::text is null or a.subject = %(subject)s)
    and (%(kind)s::text is null or a.kind = %(kind)s)
    and (%(trace)s::text is null or a.trace_id = %(trace)s)
    and (%(batch)s::uuid is null or a.batch_id = %(batch)s::uuid)
    and (%(task)s::uuid is null or a.task_id = %(task)s::uuid)

-- piece: begun_anew
-- A task that an operator puts back to work, its counters cleared.
mark = null, marked_at = null, mark_reason = null, dead_reason = null,
        attempts = 0, failures = 0, crashes = 0, polls = 0, rate_limits = 0, progress = null, polling_since = null, progressed_at = null,
        failure_class = null, error_code = null, error_message = null, error_stack = null, fingerprint = null, failed_at = null,
        expires_at = null,
        replay_count = t.replay_count + 1, last_replayed_at = now(),

-- piece: next_items
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

-- piece: traces_forgotten
unedited as (
    delete from holdfast.task_edits e using changed c where e.task_id = c.id
), unkeyed as (
    delete from holdfast.task_keys k using changed c where k.kind = c.kind and k.key = c.key and k.task_id = c.id
)

-- piece: items_dealt_with
-- Those that were not changed say why, each has its entry in the audit, and the plan says how far it is.
skipped as (
    insert into holdfast.plan_skips (plan_id, place, task_id, reason)
    select p.id, i.place, i.task_id, coalesce(
        'vetoed: ' || i.veto,
        (
            select case when t.mark is null then 'it is back at work already' when t.marked_at <> i.marked_at then 'it has failed anew since' else 'it is ' || t.mark end
            from holdfast.tasks t where t.id = i.task_id
        ),
        'it is gone'
    )
    from plan p
    cross join taken i
    where not exists (select from changed c where c.place = i.place)
    returning place, task_id, reason
), chunk as (
    insert into holdfast.audit_unsealed (chunk)
    select nextval('holdfast.audit_chunk') where exists (select from taken)
    returning chunk
), noted as (
    insert into holdfast.audit_log (chunk, place, at, action, actor, reason, batch_id, task_id, kind, subject, trace_id, details)
    select
        k.chunk, row_number() over (), clock_timestamp(), case p.action when 'forget' then 'TASK_FORGET_BATCH_' else 'TASK_RETRY_BATCH_' end || x.what,
        p.started_by, p.reason, p.id, x.id, x.kind, x.subject, x.trace_id, x.details
    from chunk k
    cross join plan p
    cross join (
        select 'ITEM', c.id, c.kind, c.subject, c.trace_id, case when c.error_code is not null then jsonb_build_object('code', c.error_code) end from changed c
        union all
        select 'SKIPPED', s.task_id, t.kind, t.subject, t.trace_id, jsonb_build_object('because', s.reason)
        from skipped s left join holdfast.tasks t on t.id = s.task_id
    ) as x (what, id, kind, subject, trace_id, details)
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
    where p.id = (select o.id from plan o)
)
select c.changed, c.skipped, array(select distinct x.bucket from changed x where x.position is not null) from counted c;

-- piece: tasks_found
-- By their key, one by one: a planner that does not know how few were found may read all tasks there are.
lateral (select c.* from holdfast.tasks c where c.id = f.id offset 0) t

-- piece: as_lapsed
-- A claim that may have to be taken back, with all that deciding needs.
t.id::text, f.fence, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
    t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, t.bucket, t.max_attempts, t.timeout_seconds,
    t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.alone,
    case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end,
    f.started_at, f.worker::text, f.overdue

-- piece: as_waiting
            coalesce(p.position, (extract(epoch from p.run_at) * 1000000)::bigint), p.id, p.timeout_seconds,
            case when p.position is null then p.priority else 0 end,
            coalesce(p.bucket, p.kind || '@' || p.queue), p.queue, p.kind

-- piece: turned_over
        select count(*)::integer as tasks, case when count(*) > 0 then holdfast.turn_over(
            array_agg(w.bucket), array_agg(w.priority), array_agg(w.position), array_agg(w.id), array_agg(w.queue), array_agg(w.kind)
        ) end
        from waits w
