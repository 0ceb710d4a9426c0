-- What several statements have in common; `db/statements.py` puts it in where they say {name}.

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
            select case
                when t.mark is null then 'it is back at work already'
                when t.marked_at <> i.marked_at then 'it has failed anew since'
                when {has_row} then 'it still has a row in ready, waiting or running: run `holdfast doctor --repair --reason …`'
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

-- piece: tasks_found
-- By their key, one by one: a planner that does not know how few were found may read all tasks there are.
lateral (select c.* from holdfast.tasks c where c.id = f.id offset 0) t

-- piece: has_row
-- Whether a task has a row in waiting or running, or one in ready with its queue, priority and run_at.
exists (
        select from holdfast.ready p
        where p.queue = t.queue and p.priority = t.priority and p.run_at = t.run_at and p.id = t.id
    )
    or exists (select from holdfast.waiting p where p.id = t.id)
    or exists (select from holdfast.running p where p.id = t.id)

-- piece: as_lapsed
-- A claim that may have to be taken back, with all that deciding needs.
f.id::text, f.fence, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
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

-- piece: checked_payload
-- The payload of a new task within its bounds. The usual task is recognised here, because a call for each one
-- would cost a tenth of the enqueue: 65 arrays or objects inside one another take at least 512 bytes.
case
                when octet_length(u.kind) between 1 and 200
                    and left(u.kind, strpos(u.kind, ':')) not in ('after:', 'kind:', 'lane:', 'lane!:', 'queue:')
                    and octet_length(u.queue) between 1 and 200 and u.queue <> 'holdfast'
                    -- Reserved kinds; who has logged in is looked up once, and only if there is one.
                    and (split_part(u.kind, '.', 1) not in ('holdfast', 'webhook') or (select holdfast.is_own_session()))
                    and (
                        u.bucket is null or u.bucket like 'lane:_%' or u.bucket like 'lane!:_%'
                        or (strpos(u.bucket, ':') = 0 or starts_with(u.bucket, u.kind || '/')) and right(u.bucket, 1) not in ('', '=', '*')
                    )
                    and (greatest(octet_length(u.bucket), octet_length(u.subject), octet_length(u.trace_id), octet_length(u.key)) > 1000) is not true
                    and (
                        pg_column_size(u.payload) < least(512, holdfast.payload_bytes_max() / 6)
                        -- Numbers with an exponent are larger as text than they look.
                        or pg_column_size(u.payload) <= holdfast.payload_bytes_max() / 6
                            and octet_length(u.payload::text) <= holdfast.payload_bytes_max()
                            and not u.payload @? 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")'
                    )
                then u.payload
                else holdfast.check_task(u.id, u.kind, u.queue, u.bucket, u.subject, u.trace_id, u.key, u.payload)
            end

-- piece: reads_committed
-- What follows must see rows that were committed after the transaction began.
if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception using
            errcode = 'HF006',
            message = 'this function must run at the isolation level read committed, and the transaction is ' || current_setting('transaction_isolation'),
            hint = 'Set default_transaction_isolation = ''read committed'' for the role, or begin the transaction with isolation level read committed.';
    end if;

-- piece: schedule_columns
-- A schedule as `schedules.ScheduleView` has it.
s.name, s.kind, s.queue, s.version, s.expression, s.zone, s.payload::text, s.bucket, s.missed, s.most, s.jitter_seconds,
    s.next_at, s.caught_up_to, s.last_tick_at, s.declared_at, s.paused_at, s.paused_by, s.pause_reason, s.failed_at

-- piece: due_from
-- The run_at of a task that returns to ready: its own, if somebody gave it one in the future, else now. Other moments in the
-- future were written before the clock was set back.
case
    when t.mark = 'failed' or t.run_at <= t.enqueued_at or t.last_attempt_at > clock_timestamp() then clock_timestamp()
    else greatest(t.run_at, clock_timestamp()) end
