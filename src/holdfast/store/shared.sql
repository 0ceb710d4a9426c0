-- Conditions and columns that statements of several files share; `db/statements.py` puts them in for {name}.

-- shared: dead_letters
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


-- shared: marked_before
-- Below a task in a list of marked ones, the newest first.
(
        %(before)s::uuid is null
        or (t.marked_at, t.id) < ((select b.marked_at from holdfast.tasks b where b.id = %(before)s::uuid), %(before)s::uuid)
    )


-- shared: audit_entries
-- What `core.audit.EntryFilter` asks for.
(%(action)s::text is null or a.action = %(action)s)
    and (%(actor)s::text is null or a.actor = %(actor)s)
    and (%(subject)s::text is null or a.subject = %(subject)s)
    and (%(kind)s::text is null or a.kind = %(kind)s)
    and (%(trace)s::text is null or a.trace_id = %(trace)s)
    and (%(batch)s::uuid is null or a.batch_id = %(batch)s::uuid)
    and (%(task)s::uuid is null or a.task_id = %(task)s::uuid)


-- shared: begun_anew
-- A task that an operator puts back to work, its counters cleared.
mark = null, marked_at = null, mark_reason = null, dead_reason = null,
        attempts = 0, failures = 0, crashes = 0, polls = 0, rate_limits = 0, progress = null, polling_since = null, progressed_at = null,
        failure_class = null, error_code = null, error_message = null, error_stack = null, fingerprint = null, failed_at = null,
        expires_at = null,
        replay_count = t.replay_count + 1, last_replayed_at = now(),


-- shared: traces_forgotten
unedited as (
    delete from holdfast.task_edits e using changed c where e.task_id = c.id
), unkeyed as (
    delete from holdfast.task_keys k using changed c where k.kind = c.kind and k.key = c.key and k.task_id = c.id
)


-- shared: tasks_found
-- By their key, one by one: a planner that does not know how few were found may read all tasks there are.
lateral (select c.* from holdfast.tasks c where c.id = f.id offset 0) t


-- shared: has_row
-- Whether a task has a row in blocked or running, or one in ready with its queue, priority and run_at.
exists (
        select from holdfast.ready p
        where p.queue = t.queue and p.priority = t.priority and p.run_at = t.run_at and p.id = t.id
    )
    or exists (select from holdfast.blocked p where p.id = t.id)
    or exists (select from holdfast.running p where p.id = t.id)


-- shared: as_lapsed
-- A claim that may have to be taken back, with all that deciding needs.
f.id::text, f.fence, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
    t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, t.bucket, t.max_attempts, t.timeout_seconds,
    t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.isolate,
    case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end,
    f.started_at, f.worker::text, f.overdue


-- shared: as_blocked
            coalesce(p.position, (extract(epoch from p.run_at) * 1000000)::bigint), p.id, p.timeout_seconds,
            case when p.position is null then p.priority else 0 end,
            coalesce(p.bucket, p.kind || '@' || p.queue), p.queue, p.kind


-- shared: reads_committed
-- What follows must see rows that were committed after the transaction began.
if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        raise exception using
            errcode = 'HF006',
            message = 'this function must run at the isolation level read committed, and the transaction is ' || current_setting('transaction_isolation'),
            hint = 'Set default_transaction_isolation = ''read committed'' for the role, or begin the transaction with isolation level read committed.';
    end if;


-- shared: due_from
-- The run_at of a task that returns to ready: its own, if somebody gave it one in the future, else now. Other moments in the
-- future were written before the clock was set back.
case
    when t.mark = 'failed' or t.run_at <= t.enqueued_at or t.last_attempt_at > clock_timestamp() then clock_timestamp()
    else greatest(t.run_at, clock_timestamp()) end
