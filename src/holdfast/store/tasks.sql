-- Every statement that writes where a task stands or how it is marked.
--
-- The narrow row is the gate: whoever deletes a row of ready, waiting or running owns the next move
-- of that task. Marked tasks (failed, cancelled, paused) have no narrow row; their gate is an update
-- of the mark that names the marks it moves from. So no statement here needs a lock that outlives it,
-- and READ COMMITTED is enough. It is also needed: functions of several statements look again at what
-- others have committed while they waited. Those of workers refuse any other level; an enqueue, which
-- runs in the transactions of others, fails with 40001 there where its snapshot is too old.
--
-- Two rules about time keep the floor of a claim honest (store/floor.py):
--   1. a row enters ready with run_at at or after the clock of that moment;
--   2. the clock is read after the transaction has its number (xid).
--
-- And one about plans: the hot statements find rows of tasks and running through a lateral subquery
-- with `offset 0`, then by their place (ctid). It leaves the planner no other way than one index probe
-- per row. With plain joins the rate fell from 17,000 tasks a second to none beside an old snapshot;
-- it did not again since. (Inferred: once statistics called the table empty, the plan read its whole
-- index, a million dead entries included.) Rows of ready, waiting and running are never updated, and those of tasks only by
-- whoever owns the next move, so a place stays true for the length of a statement. A write from outside the engine can move
-- a row meanwhile, and a statement skips a row that has moved. So a statement that finds facts by their place after it has
-- deleted the narrow row ends with `require_moved`: all of it is rolled back, and its caller tries again.


-- name: install_uuid7
-- Time-ordered ids for those who enqueue from SQL; Python makes its own.
create or replace function holdfast.uuid7() returns uuid
language sql volatile parallel safe
as $$
    select encode(
        set_bit(set_bit(
            overlay(uuid_send(gen_random_uuid())
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6),
            52, 1), 53, 1),
        'hex')::uuid
$$;


-- name: install_reserve_keys
-- Decides for each keyed task whether it is new. Keys are taken in sorted order, so that producers
-- with overlapping keys wait for each other and never deadlock. Returns the ones that exist already.
create or replace function holdfast.reserve_keys(
    ids uuid[],
    kinds text[],
    payloads jsonb[],
    priorities smallint[],
    run_ats timestamptz[],
    keys text[],
    uniques text[],
    key_seconds double precision,
    clock timestamptz,
    versions smallint[] default null,
    expires_ats timestamptz[] default null,
    bucket_names text[] default null,
    attempts_max smallint[] default null,
    timeouts real[] default null
) returns table (given uuid, existing uuid)
language plpgsql
as $$
#variable_conflict use_column
declare
    won uuid[];
    one record;
    holder uuid;
    queued boolean;
    moved boolean;
    window_end timestamptz := clock + make_interval(secs => key_seconds);
begin
    -- Plain keys, in one statement; a key whose window is over is taken over.
    with wanted as (
        select distinct on (coalesce(u.kind, kinds[1]), u.key)
            coalesce(u.kind, kinds[1]) as kind, u.key, u.id, md5(u.payload::text)::uuid as payload_hash
        from unnest(ids, kinds, payloads, keys, uniques) with ordinality
            as u (id, kind, payload, key, uniqueness, ordinal)
        where u.key is not null and coalesce(u.uniqueness, 'key') = 'key'
        order by 1, 2, u.ordinal
    ), taken as (
        insert into holdfast.task_keys as k (kind, key, task_id, payload_hash, expires_at)
        select w.kind, w.key, w.id, w.payload_hash, window_end
        from wanted w
        order by w.kind, w.key
        on conflict (kind, key) do update
        set task_id = excluded.task_id, payload_hash = excluded.payload_hash, expires_at = excluded.expires_at
        where k.expires_at <= clock
            -- A window that is over does not let a task run twice that still waits.
            and not exists (
                select from holdfast.tasks t
                where t.id = k.task_id and (t.mark is null or t.mark = 'paused')
            )
        returning task_id
    )
    select coalesce(array_agg(task_id), '{}') into won from taken;

    -- Unless every key was a new one.
    if cardinality(won) < cardinality(array_remove(keys, null)) then
        for one in
            select u.id, coalesce(u.kind, kinds[1]) as kind, u.key, k.task_id, k.payload_hash = md5(u.payload::text)::uuid as same
            from unnest(ids, kinds, payloads, keys, uniques) as u (id, kind, payload, key, uniqueness)
            left join holdfast.task_keys k on k.kind = coalesce(u.kind, kinds[1]) and k.key = u.key
            where u.key is not null and coalesce(u.uniqueness, 'key') = 'key' and u.id not in (select unnest(won))
        loop
            if one.task_id is null then
                raise exception using errcode = '40001', message = format('the key %L of kind %L expired while it was being read: try again', one.key, one.kind);
            elsif not one.same then
                raise exception using errcode = 'HF001', message = format('the key %L of kind %L belongs to task %s, which has another payload: use a new key, or enqueue the same payload', one.key, one.kind, one.task_id);
            end if;
            given := one.id;
            existing := one.task_id;
            return next;
        end loop;
    end if;
    if (uniques && array['queued', 'replace']) is not true then
        return;
    end if;

    -- Coalescing keys, one by one: the first of a batch counts for "queued", the last for "replace".
    for one in
        select distinct on (coalesce(u.kind, kinds[1]), u.key)
            u.id, coalesce(u.kind, kinds[1]) as kind, u.key, u.uniqueness, u.payload, u.priority,
            coalesce(u.version, case when cardinality(versions) = 1 then versions[1] end, 1::smallint) as version,
            u.expires_at, u.bucket, u.max_attempts, u.timeout,
            greatest(coalesce(u.run_at, clock), clock) as run_at,
            array_agg(u.id) over (partition by coalesce(u.kind, kinds[1]), u.key) as all_ids
        from unnest(ids, kinds, payloads, priorities, run_ats, keys, uniques, versions, expires_ats, bucket_names, attempts_max, timeouts) with ordinality
            as u (id, kind, payload, priority, run_at, key, uniqueness, version, expires_at, bucket, max_attempts, timeout, ordinal)
        where u.key is not null and u.uniqueness in ('queued', 'replace')
        order by coalesce(u.kind, kinds[1]), u.key, case when u.uniqueness = 'queued' then u.ordinal else - u.ordinal end
    loop
        loop
            insert into holdfast.task_keys (kind, key, task_id, payload_hash, expires_at)
            values (one.kind, one.key, one.id, md5(one.payload::text)::uuid, greatest(window_end, one.run_at))
            on conflict (kind, key) do nothing;
            if found then
                holder := one.id;
                exit;
            end if;
            select k.task_id into holder from holdfast.task_keys k where k.kind = one.kind and k.key = one.key;
            continue when not found;
            if exists (select from holdfast.tasks t where t.id = holder and (t.kind, t.key) is distinct from (one.kind, one.key)) then
                raise exception using errcode = 'HF007', message = format(
                    'the key %L of kind %L stands for task %s, which is another one: delete the row of the key from task_keys', one.key, one.kind, holder
                );
            end if;
            if one.uniqueness = 'queued' then
                -- The narrow row is held until the caller commits, so that claims skip it: the task
                -- cannot start without seeing what the caller wrote.
                perform from holdfast.tasks t
                join holdfast.ready r on r.queue = t.queue and r.priority = t.priority and r.run_at = t.run_at and r.id = t.id
                where t.id = holder
                for key share of r;
                queued := found;
                if not queued then
                    perform from holdfast.waiting w where w.id = holder for key share;
                    queued := found;
                end if;
                if not queued then
                    perform from holdfast.tasks t where t.id = holder and t.mark = 'paused' for share;
                    queued := found;
                end if;
            else
                with dropped as (
                    delete from holdfast.ready r using holdfast.tasks t
                    where t.id = holder and r.queue = t.queue and r.priority = t.priority and r.run_at = t.run_at and r.id = t.id
                    returning r.id
                ), stepped_out as (
                    delete from holdfast.waiting w where w.id = holder returning w.id
                )
                select exists (select from dropped) or exists (select from stepped_out) into moved;
                update holdfast.tasks t
                set payload = holdfast.check_task(one.id, one.kind, t.queue, one.bucket, t.subject, t.trace_id, one.key, one.payload),
                    run_at = one.run_at, priority = coalesce(one.priority, t.priority), version = one.version,
                    expires_at = one.expires_at, max_attempts = one.max_attempts, timeout_seconds = one.timeout,
                    -- One that comes after others goes on doing so.
                    bucket = case when left(t.bucket, 6) = 'after:' or left(one.bucket, 6) = 'after:' then t.bucket else one.bucket end,
                    position = case when t.bucket is not distinct from one.bucket then t.position
                        when one.bucket like 'lane:%' or one.bucket like 'lane!:%' then nextval('holdfast.lane_position') end
                where t.id = holder and (t.mark = 'paused' or moved and t.mark is null);
                queued := found;
                if queued then
                    update holdfast.task_keys k
                    set payload_hash = md5(one.payload::text)::uuid, expires_at = greatest(k.expires_at, one.run_at)
                    where k.kind = one.kind and k.key = one.key;
                end if;
                if moved then
                    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
                    select t.run_at, t.id, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
                    from holdfast.tasks t where t.id = holder;
                end if;
            end if;
            exit when queued;
            -- One statement sees one snapshot: a live task without a row there is stranded, and another try would not find it.
            if exists (
                select from holdfast.tasks t
                where t.id = holder and t.mark is null and not (
                    {has_row}
                )
            ) then
                raise exception using errcode = 'HF007', message = format(
                    'the key %L of kind %L stands for task %s, whose row in ready, waiting or running is missing or differs from tasks: '
                    'run `holdfast doctor --repair --reason …`', one.key, one.kind, holder
                );
            end if;
            -- It may have moved between these looks: unless it runs or has ended now, look again.
            continue when exists (
                select from holdfast.tasks t
                where t.id = holder and t.mark is null
                    and not exists (select from holdfast.running r where r.id = t.id)
            );
            -- It runs or has ended: this one follows it, and is the one that later calls will find.
            update holdfast.task_keys k
            set task_id = one.id, payload_hash = md5(one.payload::text)::uuid, expires_at = greatest(window_end, one.run_at)
            where k.kind = one.kind and k.key = one.key and k.task_id = holder;
            if found then
                holder := one.id;
                exit;
            end if;
        end loop;
        return query select i, holder from unnest(one.all_ids) i where i <> holder;
    end loop;
end
$$;


-- name: install_hint
-- Tells listening workers that a queue has work, at most once in 50 ms for each queue: NOTIFY makes
-- committing transactions wait for each other, so one for each enqueue would halve the rate. The moment of
-- the last hint stands in a sequence, which is read and set without a lock. A hint that is lost costs a
-- poll, so a queue of notifications that is half full gets no more of them.
create or replace function holdfast.hint(queue text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    clock bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    last regclass := ('holdfast.hint_' || (hashtext(queue) & 3))::regclass;
begin
    if abs(clock - coalesce(pg_sequence_last_value(last), 0)) >= 50 and pg_notification_queue_usage() < 0.5 then
        perform setval(last, clock);
        perform pg_notify('holdfast.ready', queue);
    end if;
end
$$;


-- name: install_enqueue_many
-- The one door for new tasks. Arrays may be null (the default holds); kinds, queues, priorities and
-- versions may have one element that holds for all. Returns only the tasks that were not made because their key stood for another.
--
-- The first ten tasks of each bucket in a transaction are inserted into ready; the claim that finds them there moves them into
-- waiting and gives the bucket a turn. The rest are inserted into waiting directly: otherwise claims would have to move each of
-- a million tasks of one tenant, while other tenants wait. No row is locked or read, so a bucket that empties meanwhile cannot
-- strand a task. A transaction-local setting holds the count. If the ten are cancelled before a claim finds them, the cancel
-- gives the bucket its turn.
create or replace function holdfast.enqueue_many(
    ids uuid[],
    kinds text[],
    payloads jsonb[],
    queues text[] default null,
    priorities smallint[] default null,
    run_ats timestamptz[] default null,
    versions smallint[] default null,
    subjects text[] default null,
    trace_ids text[] default null,
    keys text[] default null,
    uniques text[] default null,
    key_seconds double precision default 86400,
    expires_ats timestamptz[] default null,
    bucket_names text[] default null,
    attempts_max smallint[] default null,
    timeouts real[] default null,
    hints boolean default true
) returns table (given uuid, existing uuid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    clock timestamptz;
    known uuid[] := '{}';
    -- Which of the tasks are not made, by their places in the arrays.
    dropped boolean[];
    one_priority smallint := case when cardinality(priorities) = 1 then priorities[1] end;
    one_version smallint := case when cardinality(versions) = 1 then versions[1] end;
    -- How many tasks of a bucket, queue and priority this transaction has put into ready.
    in_ready jsonb := '{}';
    new_counts jsonb;
begin
    if not (uniques <@ array['key', 'queued', 'replace']) then
        raise exception using errcode = '22023', message = format('uniqueness is one of key, queued, replace, not %s', uniques);
    end if;
    -- The usual call has none of these, and is spared the function.
    if array_to_string(kinds, ',') ~ '(^|,)(holdfast|webhook)\.' then
        perform holdfast.refuse_reserved(kinds);
    end if;
    -- An id that is given twice would let one task's key stand for the other.
    if cardinality(ids) > 1 and (select count(distinct u) from unnest(ids) u) < cardinality(ids) then
        raise exception using errcode = 'HF005', message = 'an id is given twice: each task has one of its own';
    end if;
    if cardinality(kinds) = 1 and cardinality(ids) > 1 then
        kinds := array_fill(kinds[1], array[cardinality(ids)]);
    end if;
    if queues is null or cardinality(queues) = 1 and cardinality(ids) > 1 then
        queues := array_fill(coalesce(queues[1], 'default'), array[cardinality(ids)]);
    end if;
    -- The transaction takes its number before the clock is read: see the head of this file.
    perform pg_current_xact_id();
    clock := clock_timestamp();
    if keys is not null then
        for given, existing in
            select * from holdfast.reserve_keys(
                ids, kinds, payloads, priorities, run_ats, keys, uniques, key_seconds, clock, versions, expires_ats, bucket_names, attempts_max, timeouts
            )
        loop
            known := known || given;
            return next;
        end loop;
        -- Taking a key may have waited for another producer.
        clock := clock_timestamp();
        if cardinality(known) > 0 then
            dropped := array(
                select u.id in (select unnest(known)) from unnest(ids) with ordinality as u (id, ordinal) order by u.ordinal
            );
        end if;
    end if;
    if bucket_names is not null then
        in_ready := coalesce(nullif(current_setting('holdfast.in_ready', true), ''), '{}')::jsonb;
    end if;
    with facts as (
        insert into holdfast.tasks (
            id, enqueued_at, run_at, expires_at, timeout_seconds, max_attempts, priority, version,
            kind, queue, payload, subject, trace_id, key, bucket, position
        )
        select
            u.id, clock, greatest(u.run_at, clock), u.expires_at, u.timeout, u.max_attempts,
            coalesce(u.priority, one_priority, 2::smallint),
            coalesce(u.version, one_version, 1::smallint),
            u.kind,
            coalesce(u.queue, 'default'),
            {checked_payload},
            u.subject, u.trace_id, u.key, u.bucket,
            -- Whoever enqueues in order gets places in that order: a sequence, because clocks have ties.
            case when u.bucket like 'lane:%' or u.bucket like 'lane!:%' then nextval('holdfast.lane_position') end
        from unnest(
                ids, kinds, payloads, queues, priorities, run_ats, versions,
                subjects, trace_ids, keys, expires_ats, bucket_names, attempts_max, timeouts, dropped
            ) as u (
                id, kind, payload, queue, priority, run_at, version,
                subject, trace_id, key, expires_at, bucket, max_attempts, timeout, dropped
            )
        where u.dropped is not true
        returning id, run_at, timeout_seconds, priority, queue, kind, bucket, position,
            bucket is not null and run_at <= clock and left(bucket, 6) <> 'after:' as keyed
    ), numbered as (
        select f.*, s.name as bucket_group,
            row_number() over (partition by s.name order by f.position, f.run_at, f.id) + coalesce((in_ready ->> s.name)::integer, 0) as nth
        from facts f
        cross join lateral (select concat_ws(E'\x1f', f.priority, f.queue, f.bucket) as name) s
        where f.keyed
    ), waits as (
        insert into holdfast.waiting (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_waiting}
        from numbered p
        where p.nth > 10
    ), readied as (
        insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
        select f.run_at, f.id, f.timeout_seconds, f.priority, f.queue, f.kind, f.bucket, f.position
        from facts f
        where not f.keyed
        union all
        select n.run_at, n.id, n.timeout_seconds, n.priority, n.queue, n.kind, n.bucket, n.position
        from numbered n
        where n.nth <= 10
    )
    select jsonb_object_agg(x.bucket_group, x.nth) into new_counts
    from (select n.bucket_group, max(n.nth) as nth from numbered n group by n.bucket_group order by 2 desc limit 100) x;
    if new_counts is not null then
        -- With more than 100 buckets in one transaction, counting restarts.
        perform set_config('holdfast.in_ready', (case when (select count(*) from jsonb_object_keys(in_ready)) < 100 then in_ready || new_counts else new_counts end)::text, true);
    end if;
    if hints and (run_ats is null or clock >= any (run_ats) or array_position(run_ats, null) is not null) then
        perform holdfast.hint(q.name)
        from (select distinct coalesce(u, 'default') as name from unnest(queues) u) q;
    end if;
end
$$;


-- name: install_enqueue
-- One task, for triggers and other languages: select holdfast.enqueue('mail.send', '{"to": 7}').
create or replace function holdfast.enqueue(
    kind text,
    payload jsonb default '{}',
    queue text default 'default',
    priority integer default 2,
    run_at timestamptz default null,
    subject text default null,
    trace_id text default null,
    key text default null,
    uniqueness text default 'key',
    expires_at timestamptz default null,
    bucket text default null,
    max_attempts integer default null,
    timeout_seconds real default null,
    version integer default 1,
    id uuid default null,
    hints boolean default true
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    new_id uuid := coalesce(id, holdfast.uuid7());
    old_id uuid;
begin
    select existing into old_id from holdfast.enqueue_many(
        ids => array[new_id],
        kinds => array[kind],
        payloads => array[payload],
        queues => array[queue],
        priorities => array[priority::smallint],
        run_ats => array[run_at],
        versions => array[version::smallint],
        subjects => array[subject],
        trace_ids => array[trace_id],
        keys => case when key is not null then array[key] end,
        uniques => array[uniqueness],
        expires_ats => array[expires_at],
        bucket_names => array[bucket],
        attempts_max => array[max_attempts::smallint],
        timeouts => array[timeout_seconds],
        hints => hints
    );
    return coalesce(old_id, new_id);
end
$$;


-- name: install_enqueue_after
-- One task that starts when all of `predecessors` have ended, however that was. It stands behind a bucket of its
-- own, which nobody gives a turn; `release_followups` takes it out of there.
create or replace function holdfast.enqueue_after(
    id uuid,
    predecessors uuid[],
    kind text,
    payload jsonb,
    queue text default 'default',
    priority smallint default 2,
    run_at timestamptz default null,
    version smallint default 1,
    subject text default null,
    trace_id text default null,
    key text default null,
    uniqueness text default 'key',
    key_seconds double precision default 86400,
    expires_at timestamptz default null,
    bucket text default null,
    max_attempts smallint default null,
    timeout_seconds real default null
) returns table (given uuid, existing uuid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    -- Under names of their own: those of the columns would be taken for these.
    new_id uuid := id;
    own_bucket text := bucket;
    missing uuid;
begin
    perform holdfast.refuse_reserved(array[kind]);
    if cardinality(predecessors) > 10000 then
        raise exception using
            errcode = 'HF005',
            message = format('a task comes after at most 10000 others, and this one after %s', cardinality(predecessors));
    end if;
    select u.id into missing
    from unnest(predecessors) as u (id)
    where not exists (select from holdfast.tasks t where t.id = u.id)
        and not exists (select from holdfast.task_history h where h.id = u.id)
    limit 1;
    if missing is not null then
        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
            -- It may have been enqueued since the snapshot of this transaction.
            raise exception using errcode = '40001', message = format('task %s, which this one is to come after, is not in the snapshot of the transaction: try again', missing);
        end if;
        raise exception using errcode = 'HF002', message = format('task %s, which this one is to come after, does not exist', missing);
    end if;
    if starts_with(bucket, 'lane:') or starts_with(bucket, 'lane!:') then
        raise exception using
            errcode = 'HF005',
            message = format('a %s task cannot have a lane and come after others: the lane would wait for it', kind);
    end if;
    perform holdfast.check_task(id, kind, queue, bucket, subject, trace_id, key, payload);
    -- First: it is what allows the bucket of the task.
    insert into holdfast.followups (task_id, predecessors, pivot, bucket)
    values (new_id, predecessors, predecessors[1], own_bucket);
    for given, existing in
        select * from holdfast.enqueue_many(
            ids => array[new_id], kinds => array[kind], payloads => array[payload], queues => array[queue], priorities => array[priority],
            run_ats => array[run_at], versions => array[version], subjects => array[subject], trace_ids => array[trace_id],
            keys => case when key is not null then array[key] end, uniques => array[uniqueness], key_seconds => key_seconds,
            expires_ats => array[expires_at], bucket_names => array['after:' || new_id], attempts_max => array[max_attempts],
            timeouts => array[timeout_seconds], hints => false
        )
    loop
        return next;
    end loop;
    if found then
        delete from holdfast.followups f where f.task_id = new_id;
    end if;
end
$$;


-- name: install_release_followups
-- Of each follow-up one task that has not ended is known (its pivot), and only that one is looked at, until it
-- has; then another one is looked for, among all of them: one that had failed may be back at work. So ending a
-- task costs nothing more. What somebody else moves just now is left for the next time.
create or replace function holdfast.release_followups(most integer, out released text[], out looked integer, out waiting boolean)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    f record;
    later uuid;
    facts record;
    back uuid;
begin
    {reads_committed}
    released := '{}';
    looked := 0;
    for f in
        select u.task_id, u.bucket
        from holdfast.followups u
        where u.released_at is null
            and not exists (select from holdfast.tasks t where t.id = u.pivot and (t.mark is null or t.mark = 'paused'))
        limit most
        for update skip locked
    loop
        select b.id into later
        from holdfast.followups u
        cross join lateral unnest(u.predecessors) as b (id)
        where u.task_id = f.task_id
            and exists (select from holdfast.tasks t where t.id = b.id and (t.mark is null or t.mark = 'paused'))
        limit 1;
        if later is not null then
            update holdfast.followups u set pivot = later where u.task_id = f.task_id;
            looked := looked + 1;
            continue;
        end if;
        select t.mark into facts from holdfast.tasks t where t.id = f.task_id for update skip locked;
        continue when not found and exists (select from holdfast.tasks t where t.id = f.task_id);
        back := null;
        if found and facts.mark is null then
            with gone as (
                delete from holdfast.waiting w
                where w.ctid = any (array(select c.ctid from holdfast.waiting c where c.id = f.task_id for update skip locked))
                returning w.id
            ), dropped as (
                delete from holdfast.ready r
                where r.ctid = any (array(
                    select c.ctid
                    from holdfast.tasks t
                    join holdfast.ready c on c.queue = t.queue and c.priority = t.priority and c.run_at = t.run_at and c.id = t.id
                    where t.id = f.task_id
                    for update of c skip locked
                ))
                returning r.id
            )
            select g.id into back from (select id from gone union all select id from dropped) g;
            continue when back is null;
        end if;
        looked := looked + 1;
        update holdfast.followups u set released_at = now() where u.task_id = f.task_id;
        -- One that was cancelled or paused meanwhile stays so, and stands behind nothing when it comes back.
        update holdfast.tasks t set bucket = f.bucket where t.id = f.task_id and t.bucket = 'after:' || f.task_id;
        if back is not null then
            perform pg_current_xact_id();
            update holdfast.tasks t set run_at = {due_from} where t.id = f.task_id;
            insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
            select t.run_at, t.id, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
            from holdfast.tasks t where t.id = f.task_id;
            perform holdfast.hint(t.queue) from holdfast.tasks t where t.id = f.task_id;
            released := released || f.task_id::text;
        end if;
    end loop;
    waiting := exists (select from holdfast.followups u where u.released_at is null);
end
$$;


-- name: install_require_moved
-- Raises unless as many tasks were moved as narrow rows were deleted. The code is the one of a serialization failure,
-- because the caller has to do the same: try again.
create or replace function holdfast.require_moved(deleted bigint, moved bigint) returns boolean
language plpgsql
as $$
begin
    if deleted <> moved then
        raise exception using errcode = '40001', message = format(
            'rows of %s of %s tasks were changed or deleted by another transaction meanwhile: try again', deleted - moved, deleted
        );
    end if;
    return true;
end
$$;


-- name: install_offer
-- Gives a turn to those of these buckets that have tasks and no turn yet, in the name of the first task, or of the
-- first in a queue that is served. Waits for whoever is serving one of them just now, because that one may have found it full.
create or replace function holdfast.offer(names text[], live text[] default null) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    {reads_committed}
    insert into holdfast.turns as t (turn, bucket, queue, kind)
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint, n.name, w.queue, w.kind
    from (select distinct u.name from unnest(names) as u (name) where left(u.name, 6) <> 'after:') n
    cross join lateral (
        select c.queue, c.kind from holdfast.waiting c
        where c.bucket = n.name and (live is null or c.queue = any (live))
        order by c.priority, c.position, c.id
        limit 1
    ) w
    order by n.name
    -- One that is there is held until the caller commits, and so is looked at after that.
    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind
    where (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);
end
$$;


-- name: install_turn_over
-- Gives a turn to the buckets of tasks that have just stepped aside.
create or replace function holdfast.turn_over(
    buckets text[], priorities smallint[], positions bigint[], ids uuid[], queues text[], kinds text[]
) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    insert into holdfast.turns as t (turn, bucket, queue, kind)
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint, h.bucket, h.queue, h.kind
    from (
        -- In a lane there may be several kinds: the turn is that of the first task's, of these and of those that wait already.
        select distinct on (x.bucket) x.bucket, x.queue, x.kind
        from (
            select w.bucket, w.priority, w.position, w.id, w.queue, w.kind
            from unnest(buckets, priorities, positions, ids, queues, kinds) as w (bucket, priority, position, id, queue, kind)
            where left(w.bucket, 6) <> 'after:'
            union all
            select b.bucket, o.priority, o.position, o.id, o.queue, o.kind
            from (select distinct u.bucket from unnest(buckets) as u (bucket) where left(u.bucket, 4) = 'lane') b
            cross join lateral (
                select c.priority, c.position, c.id, c.queue, c.kind from holdfast.waiting c
                where c.bucket = b.bucket
                order by c.priority, c.position, c.id
                limit 1
            ) o
        ) x
        order by x.bucket, x.priority, x.position, x.id
    ) h
    order by h.bucket
    -- A turn that is there is held until this commits: whoever served it before could not see these tasks.
    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind
    where t.bucket like 'lane%' and (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);
end
$$;


-- name: install_has_turn
-- Whether a bucket's turn has come, in one of these queues and of one of these kinds.
create or replace function holdfast.has_turn(queues text[], kinds text[]) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return exists (
        select from holdfast.turns t
        where t.queue = any (queues) and t.kind = any (kinds) and t.turn <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
    );
end
$$;


-- name: install_free_slots
-- Gives slots back. Only those of the worker's present epoch: an older connection of its own may still be
-- at work, and what that one frees was counted away already.
create or replace function holdfast.free_slots(holder uuid, of_epoch integer, names text[], counts integer[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    places tid[];
    fewer integer[];
    rests integer[];
begin
    {reads_committed}
    select array_agg(x.place), array_agg(x.fewer), array_agg(x.slots - x.fewer)
    into places, fewer, rests
    from (
        select c.place, c.slots, f.slots as fewer
        from (select u.name, u.slots from unnest(names, counts) as u (name, slots) order by u.name) f
        cross join lateral (
            select s.ctid as place, s.slots from holdfast.slots s
            where s.bucket = f.name and s.worker = holder and s.epoch = of_epoch
            for update
        ) c
    ) x;
    delete from holdfast.slots s
    where s.ctid = any (array(select u.place from unnest(places, rests) as u (place, rest) where u.rest <= 0));
    if 0 < any (rests) then
        update holdfast.slots s
        set slots = s.slots - u.fewer
        from unnest(places, fewer, rests) as u (place, fewer, rest)
        where s.ctid = u.place and u.rest > 0;
    end if;
    perform holdfast.offer(names);
end
$$;


-- name: install_lease_at_once
-- Leases slots for tasks that stand in ready (`names` has the bucket of each, in their order), where nobody
-- waits behind the bucket already: most of a hundred thousand keys are idle, and starting from there saves
-- the way through waiting and turns. Only limits of a key that count what runs: rates, lanes and keys
-- that are only served in turn go the long way. Answers for how many tasks of each bucket slots were leased.
create or replace function holdfast.lease_at_once(names text[], holder uuid, of_epoch integer, room integer) returns table (name text, slots integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    guarded integer[];
begin
    {reads_committed}
    if names is null or room < 1 then
        return;
    end if;
    guarded := array(
        select g.number from holdfast.guards g
        where g.number = any (array(select hashtext(n.name) & 16383 from unnest(names) as n (name)))
        for update skip locked
    );
    -- A new statement, so that it sees what the last holder of a guard wrote.
    return query
    with wanted as materialized (
        select n.name, count(*)::integer as tasks, min(n.nth) as nth
        from unnest(names) with ordinality as n (name, nth)
        where hashtext(n.name) & 16383 = any (guarded)
        group by n.name
    ), fitting as materialized (
        select f.name, f.mine, least(f.slots, room - f.before)::integer as slots
        from (
            select w.name, x.slots, u.mine, sum(x.slots) over (order by w.nth) - x.slots as before
            from wanted w
            cross join lateral (
                select sum(s.slots)::integer as slots, (array_agg(s.ctid) filter (where s.worker = holder))[1] as mine
                from holdfast.slots s
                where s.bucket = w.name
                offset 0
            ) u
            left join lateral (select b.* from holdfast.buckets b where b.name = w.name offset 0) b on true
            left join lateral (
                select b.* from holdfast.buckets b where b.name = split_part(w.name, '=', 1) || '=*' offset 0
            ) r on b.name is null
            cross join lateral (
                select least(w.tasks, case when b.name is null then r.capacity else b.capacity end - coalesce(u.slots, 0)) as slots
            ) x
            where x.slots > 0 and coalesce(b.capacity, r.capacity) is not null
                and coalesce(b.paused_at, r.paused_at) is null
                and coalesce(b.rate_count, r.rate_count) is null
                and (select true from holdfast.waiting c where c.bucket = w.name limit 1) is null
        ) f
        where f.before < room
    ), more as (
        update holdfast.slots s
        set slots = s.slots + f.slots, epoch = of_epoch
        from fitting f
        where s.ctid = f.mine
    ), leased as (
        insert into holdfast.slots (worker, slots, epoch, bucket)
        select holder, f.slots, of_epoch, f.name from fitting f where f.mine is null
    )
    select f.name, f.slots from fitting f;
end
$$;


-- name: install_claim
-- Takes up to `room` tasks out of ready, range by range in the order given (one range per queue and
-- priority, from its floor), under one new fence. Tasks that stand behind a bucket go to waiting
-- instead, except for those that may start at once. The first row tells what the caller's floor needs: the oldest number that the snapshot could
-- not see, this claim's own number where it took something, when it began, which queues it left
-- out because they are paused, and, for those who ask, whether a bucket's turn has come.
--
-- A function, so that its plan is made once a connection and follows the index whatever the statistics say: where they
-- called `ready` empty, each claim sorted all that had come since, on disk (400,000: 330 ms instead of 0.3). But one
-- statement, hence one snapshot: a floor may not pass what a second one would have shown.
create or replace function holdfast.claim(
    queues text[],
    priorities smallint[],
    froms timestamptz[],
    tos timestamptz[],
    room integer,
    known text[],
    holder uuid,
    of_epoch integer,
    at_once integer,
    timeout double precision,
    with_turns boolean
) returns table (
    id text, fence bigint, kind text, queue text, priority smallint, payload text, version smallint, run_at timestamptz,
    enqueued_at timestamptz, expires_at timestamptz, subject text, trace_id text, key text, bucket text,
    max_attempts smallint, timeout_seconds real, attempts integer, failures smallint, crashes smallint, polls bigint,
    rate_limits smallint, alone boolean, polled double precision[]
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_memoize = off
set jit = off
as $$
#variable_conflict use_column
begin
    {reads_committed}
    return query
    with token as materialized (
        select nextval('holdfast.fence') as fence
    ), picked as (
        delete from holdfast.ready r
        where r.ctid = any (array(
            select x.place
            from (
                select l.queue, l.priority, l.run_from, l.run_to,
                    -- A queue that was resumed is taken up in ten seconds, not in one rush.
                    greatest(1, room * least(1, extract(epoch from now() - q.resumed_at) / 10))::integer as most
                from unnest(queues, priorities, froms, tos) as l (queue, priority, run_from, run_to)
                -- Looked up range by range: a join would be free to give the ranges in any order.
                left join lateral (select c.paused_at, c.resumed_at from holdfast.queues c where c.name = l.queue offset 0) q on true
                where q.paused_at is null
            ) l
            cross join lateral (
                select c.ctid as place
                from holdfast.ready c
                where c.queue = l.queue
                    and c.priority = l.priority
                    and c.run_at >= l.run_from
                    and c.run_at <= least(l.run_to, now())
                order by c.run_at, c.id
                limit l.most
                for update skip locked
            ) x
            limit room
        ))
        returning r.id, r.run_at, r.timeout_seconds, r.priority, r.queue, r.kind, r.bucket, r.position
    ), doors as (
        -- Kinds and queues that are limited, paused or not known to all: usually none.
        select
            array(select b.kind from holdfast.buckets b where b.kind is not null) as kinds,
            array(select b.queue from holdfast.buckets b where b.queue is not null) as queues
    ), seen as (
        select p.*, p.kind = any ((select d.kinds from doors d)::text[]) or p.queue = any ((select d.queues from doors d)::text[]) as shut
        from picked p
    ), placed as (
        -- Before a door, or behind a bucket alone, in its order there: usually none, and the others skip all this.
        select s.*, row_number() over (partition by s.bucket, s.shut order by s.priority, s.run_at, s.id) as nth
        from seen s
        where s.shut or s.bucket is not null
    ), leased as (
        select l.name, l.slots
        from holdfast.lease_at_once(
            (
                select array_agg(p.bucket order by p.priority, p.run_at, p.id) from placed p
                where p.position is null and not p.shut and p.kind = any (known)
            ),
            holder, of_epoch, at_once
        ) l
    ), waits as (
        insert into holdfast.waiting (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_waiting}
        from placed p
        left join leased l on l.name = p.bucket
        where p.shut or p.nth > coalesce(l.slots, 0)
        returning bucket, priority, position, id, queue, kind
    ), turned as materialized (
        {turned_over}
    ), started as (
        insert into holdfast.running (id, fence, started_at, deadline_at, worker)
        select
            p.id, (select k.fence from token k), now(),
            now() + make_interval(secs => coalesce(p.timeout_seconds, timeout)),
            holder
        from (
            select s.id, s.timeout_seconds from seen s where not s.shut and s.bucket is null
            union all
            select p.id, p.timeout_seconds from placed p join leased l on l.name = p.bucket where not p.shut and p.nth <= l.slots
        ) p
        returning id, fence
    )
    -- The first row, with its values in the places of fence, payload, enqueued_at, attempts, polls and alone.
    select
        null, pg_snapshot_xmin(pg_current_snapshot())::text::bigint, null, null, null,
        (
            select json_agg(q.name)::text from holdfast.queues q
            where (q.paused_at is not null or q.resumed_at is not null) and q.name = any (queues)
        ),
        null, null, now(), null, null, null, null, null, null, null, (select t.tasks from turned t), null, null,
        case when exists (select from picked) then pg_current_xact_id()::text::bigint end, null,
        case when with_turns then holdfast.has_turn(queues, known) end, null
    union all
    select
        t.id::text, s.fence, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
        t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, t.bucket, t.max_attempts, t.timeout_seconds,
        t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.alone,
        case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end
    from started s
    cross join lateral (
        select c.* from holdfast.tasks c where c.id = s.id offset 0
    ) t;
end
$$;


-- name: install_shunt
-- Moves tasks that stand behind a bucket out of the head of ready, many at a time, once a claim has
-- met one: a million of them must not cost a million claims.
create or replace function holdfast.shunt(queues text[], priorities smallint[], froms timestamptz[], room integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    moved integer;
begin
    {reads_committed}
    with heads as materialized (
        select x.place, x.kind, x.bucket, l.queue
        from unnest(queues, priorities, froms) as l (queue, priority, run_from)
        cross join lateral (
            select c.ctid as place, c.kind, c.bucket
            from holdfast.ready c
            where c.queue = l.queue and c.priority = l.priority and c.run_at >= l.run_from and c.run_at <= now()
            order by c.run_at, c.id
            limit room
        ) x
        limit room
    ), picked as (
        -- Only what is moved is locked: a claim that met a lock on the others would pass them over.
        delete from holdfast.ready r
        where r.ctid = any (array(
            select c.ctid
            from holdfast.ready c
            where c.ctid = any (array(
                    select h.place from heads h
                    where h.bucket is not null
                        or exists (select from holdfast.buckets b where b.kind = h.kind)
                        or exists (select from holdfast.buckets b where b.queue = h.queue)
                ))
            for update skip locked
        ))
        returning r.id, r.run_at, r.timeout_seconds, r.priority, r.queue, r.kind, r.bucket, r.position
    ), waits as (
        insert into holdfast.waiting (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_waiting}
        from picked p
        returning bucket, priority, position, id, queue, kind
    ), turned as materialized (
        {turned_over}
    )
    select t.tasks into moved from turned t;
    return moved;
end
$$;


-- name: install_claim_waiting
-- Takes tasks from behind buckets, and leases to the worker the slots that they need.
--
-- A turn is the place of a bucket in line: whoever deletes the row of turns serves it, so two never do
-- at once; and holds its guard, because `lease_at_once` asks for no turn. Turns are read by queue and kind from a floor, so that what stands behind a shut door costs
-- nothing. A door (the limit of a kind or of a queue) is locked for the length of this call, or passed over.
-- Buckets are served in turn, each as many tasks as its weight says before the next; then it goes to the end of the line.
--
-- The first row carries no task: its payload tells the slots that were leased, the buckets where more tasks
-- wait that may be claimed ahead, and the oldest turn that was met in each queue and kind.
create or replace function holdfast.claim_waiting(
    queues text[],
    kinds text[],
    floors bigint[],
    served text[],
    known text[],
    holder uuid,
    of_epoch integer,
    room integer,
    timeout double precision,
    places text[],
    ahead integer[],
    floor_priorities smallint[],
    floor_positions bigint[],
    freed text[],
    counts integer[]
) returns table (
    id text, fence bigint, kind text, queue text, priority smallint, payload text, version smallint, run_at timestamptz,
    enqueued_at timestamptz, expires_at timestamptz, subject text, trace_id text, key text, bucket text,
    max_attempts smallint, timeout_seconds real, attempts integer, failures smallint, crashes smallint, polls integer,
    rate_limits smallint, alone boolean, polled double precision[], claimed_at timestamptz, limits text[], rated boolean
)
language plpgsql
-- Planned once a connection: planning anew took ten times as long as running. And in the order of the index:
-- with a bitmap and a sort every task of a bucket would be read for the first few.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := clock_timestamp();
    clock bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    paused_kinds text[];
    paused_queues text[];
    -- Limited doors that this call may lease from, with the room behind each.
    doors text[] := '{}';
    rooms integer[] := '{}';
    -- All limited doors, by kind and by queue, and whether their limit is of the kind that is leased.
    limited_kinds text[] := '{}';
    limited_queues text[] := '{}';
    leased_doors text[] := '{}';
    rated_doors text[] := '{}';
    -- The buckets whose turn it is.
    turned text[];
    turns_of bigint[];
    guarded integer[];
    capacities integer[];
    weights real[];
    takes integer[];
    rated boolean[];
    -- What is started: one element a task.
    ids uuid[] := '{}';
    of_buckets text[] := '{}';
    of_kinds text[] := '{}';
    of_queues text[] := '{}';
    of_timeouts real[] := '{}';
    of_owns boolean[] := '{}';
    of_rates boolean[] := '{}';
    first_ids integer := 0;
    workers integer := 1;
    quantum integer;
    token bigint;
    leases jsonb := '{}';
    more jsonb := '[]';
    met jsonb := '[]';
begin
    {reads_committed}
    if cardinality(freed) > 0 then
        perform holdfast.free_slots(holder, of_epoch, freed, counts);
    end if;

    select
        coalesce(array_agg(b.kind) filter (where b.kind is not null and b.paused_at is not null), '{}'),
        coalesce(array_agg(b.kind) filter (where b.kind is not null and (b.capacity is not null or b.rate_count is not null or b.resumed_at > now() - interval '10 s')), '{}'),
        coalesce(array_agg(b.queue) filter (where b.queue is not null), '{}'),
        coalesce(array_agg(b.name) filter (where b.capacity is not null or b.resumed_at > now() - interval '10 s'), '{}'),
        coalesce(array_agg(b.name) filter (where b.rate_count is not null), '{}')
    into paused_kinds, limited_kinds, limited_queues, leased_doors, rated_doors
    from holdfast.buckets b
    where b.kind is not null or b.queue is not null;
    select coalesce(array_agg(q.name), '{}') into paused_queues
    from holdfast.queues q
    where q.paused_at is not null;

    if room > 0 and (cardinality(limited_kinds) > 0 or cardinality(limited_queues) > 0) then
        select greatest(1, count(*)) into workers
        from holdfast.workers w
        where w.lost_at is null and w.lease_expires_at > now() and w.queues && served;
        -- Those that have work and, as far as can be seen without a lock, room.
        doors := array(
            select b.name
            from holdfast.buckets b
            where (b.kind = any (limited_kinds) and b.kind = any (kinds) or b.queue = any (limited_queues) and b.queue = any (queues))
                and b.paused_at is null
                and (b.capacity is null or b.capacity > (select coalesce(sum(s.slots), 0) from holdfast.slots s where s.bucket = b.name))
            order by b.name
            for update skip locked
        );
        -- A new statement, so that it sees what the last holder of the lock wrote.
        select coalesce(array_agg(d.name order by d.name), '{}'), coalesce(array_agg(d.room order by d.name), '{}')
        into doors, rooms
        from (
            select
                b.name,
                least(
                    coalesce(b.capacity, 1000000) - coalesce(used.slots, 0),
                    -- Each worker its share first; what nobody else wants is there a little later.
                    ceil(b.capacity::double precision / workers)::integer,
                    case when b.resumed_at > now() - interval '10 s'
                        then power(2, extract(epoch from now() - b.resumed_at) + 2)::integer - coalesce(used.slots, 0) else 1000000 end,
                    case when b.rate_count is not null then floor(
                        b.rate_ahead - greatest(0, extract(epoch from r.spent_until - moment)) * b.rate_count / b.rate_seconds + 1e-6
                    )::integer else 1000000 end
                ) as room
            from holdfast.buckets b
            left join lateral (select sum(s.slots)::integer as slots from holdfast.slots s where s.bucket = b.name) used on true
            left join holdfast.rates r on r.bucket = b.name
            where b.name = any (doors)
        ) d
        where d.room > 0;
    end if;

    if room > 0 then
        with picked as (
            delete from holdfast.turns d
            where d.ctid = any (array(
                select x.place
                from (
                    select x.place, x.turn, l.nth as range_nth, dense_rank() over (order by array_position(queues, l.queue)) as queue_nth,
                        row_number() over (partition by l.nth order by x.turn) as nth
                    from unnest(queues, kinds, floors) with ordinality as l (queue, kind, floor, nth)
                    cross join lateral (
                        select t.ctid as place, t.turn
                        from holdfast.turns t
                        where t.queue = l.queue and t.kind = l.kind and t.turn >= l.floor and t.turn <= clock
                        order by t.turn
                        limit room
                        for update skip locked
                    ) x
                    where l.kind <> all (paused_kinds)
                        and l.queue <> all (paused_queues)
                        and (l.kind <> all (limited_kinds) or 'kind:' || l.kind = any (doors))
                        and (l.queue <> all (limited_queues) or 'queue:' || l.queue = any (doors))
                ) x
                -- The queues in their strict order, the kinds of one queue side by side.
                order by x.queue_nth, x.nth, x.turn
                limit room
            ))
            returning d.bucket, d.turn, d.queue, d.kind
        )
        select
            array_agg(p.bucket order by p.turn, p.bucket), array_agg(p.turn order by p.turn, p.bucket),
            (
                select jsonb_agg(jsonb_build_array(m.queue, m.kind, m.turn))
                from (select q.queue, q.kind, min(q.turn) as turn from picked q group by q.queue, q.kind) m
            )
        into turned, turns_of, met
        from picked p;
    end if;

    if turned is not null then
        guarded := array(
            select g.number from holdfast.guards g
            where g.number = any (array(select hashtext(n.name) & 16383 from unnest(turned) as n (name)))
            for update skip locked
        );
        quantum := greatest(1, ceil(room::double precision / cardinality(turned)));
        -- Of each bucket: its own limit, else that of its rule, else one at a time for a lane, else none.
        select
            array_agg(o.capacity order by o.nth), array_agg(o.weight order by o.nth), array_agg(o.rated order by o.nth),
            array_agg(greatest(0, least(
                ceil(quantum * o.weight)::integer,
                o.capacity - o.used,
                case when o.paused or not o.guarded then 0 end,
                o.rate_room
            )) order by o.nth)
        into capacities, weights, rated, takes
        from (
            select
                t.nth,
                coalesce(b.capacity, case when b.name is null then r.capacity end, case when t.bucket like 'lane:%' or t.bucket like 'lane!:%' then 1 end) as capacity,
                coalesce(b.weight, r.weight, 1) as weight,
                coalesce(b.paused_at, r.paused_at) is not null as paused,
                hashtext(t.bucket) & 16383 = any (guarded) as guarded,
                coalesce(b.rate_count, r.rate_count) is not null as rated,
                case when coalesce(b.rate_count, r.rate_count) is not null then floor(
                    coalesce(b.rate_ahead, r.rate_ahead)
                    - greatest(0, extract(epoch from f.spent_until - moment)) * coalesce(b.rate_count, r.rate_count) / coalesce(b.rate_seconds, r.rate_seconds) + 1e-6
                )::integer end as rate_room,
                coalesce((select sum(s.slots)::integer from holdfast.slots s where s.bucket = t.bucket), 0) as used
            from unnest(turned) with ordinality as t (bucket, nth)
            left join lateral (select c.* from holdfast.buckets c where c.name = t.bucket offset 0) b on true
            left join lateral (
                select c.* from holdfast.buckets c where c.name = split_part(t.bucket, '=', 1) || '=*' offset 0
            ) r on b.name is null
            left join lateral (select c.* from holdfast.rates c where c.bucket = t.bucket offset 0) f on true
        ) o;

        with found as materialized (
            select c.place, c.kind, c.queue, t.nth as bucket_nth, ceil(row_number() over (partition by t.nth order by c.priority, c.position, c.id) / t.weight) as round
            from unnest(turned, takes, weights) with ordinality as t (bucket, take, weight, nth)
            cross join lateral (
                select i.* from (
                select w.ctid as place, w.kind, w.queue, w.priority, w.position, w.id
                from holdfast.waiting w
                where w.bucket = t.bucket
                    and (w.priority, w.position) >= (
                        coalesce(floor_priorities[array_position(places, t.bucket)], 0::smallint),
                        coalesce(floor_positions[array_position(places, t.bucket)], 0)
                    )
                    and w.queue = any (queues)
                    and (known is null or w.kind = any (known))
                    and w.kind <> all (paused_kinds)
                    and w.queue <> all (paused_queues)
                    and (w.kind <> all (limited_kinds) or 'kind:' || w.kind = any (doors))
                    and (w.queue <> all (limited_queues) or 'queue:' || w.queue = any (doors))
                order by w.priority, w.position, w.id
                limit t.take
                for update skip locked
                ) i
                -- In a lane only the first of all that have not ended may start, wherever it stands; so no other is looked at.
                where t.bucket not like 'lane%' or not exists (
                    select from holdfast.tasks e
                    where e.bucket = t.bucket and e.position < i.position
                        and (e.mark is null or t.bucket like 'lane!:%' and e.mark in ('failed', 'paused'))
                )
            ) c
            where t.take > 0
        ), ranked as (
            select
                f.place, f.kind, f.queue, f.round, f.bucket_nth,
                row_number() over (partition by f.kind order by f.round, f.bucket_nth) as in_kind,
                row_number() over (partition by f.queue order by f.round, f.bucket_nth) as in_queue
            from found f
        ), chosen as (
            select r.place
            from ranked r
            where (r.kind <> all (limited_kinds) or r.in_kind <= rooms[array_position(doors, 'kind:' || r.kind)])
                and (r.queue <> all (limited_queues) or r.in_queue <= rooms[array_position(doors, 'queue:' || r.queue)])
            order by r.round, r.bucket_nth
            limit room
        ), taken as (
            delete from holdfast.waiting w
            where w.ctid = any (array(select c.place from chosen c))
            returning w.id, w.bucket, w.kind, w.queue, w.timeout_seconds
        )
        select
            coalesce(array_agg(t.id), '{}'), coalesce(array_agg(t.bucket), '{}'), coalesce(array_agg(t.kind), '{}'),
            coalesce(array_agg(t.queue), '{}'), coalesce(array_agg(t.timeout_seconds), '{}'),
            coalesce(array_agg(o.capacity is not null), '{}'), coalesce(array_agg(o.rated), '{}')
        into ids, of_buckets, of_kinds, of_queues, of_timeouts, of_owns, of_rates
        from taken t
        join unnest(turned, capacities, rated) as o (bucket, capacity, rated) on o.bucket = t.bucket;
        first_ids := cardinality(ids);
    end if;

    if cardinality(places) > 0 then
        -- Ahead of the slots that the worker holds already: nothing is leased for these.
        with taken as (
            delete from holdfast.waiting w
            where w.ctid = any (array(
                select c.place
                from unnest(places, ahead, floor_priorities, floor_positions) as p (place, tasks, floor_priority, floor_position)
                cross join lateral (
                    select a.ctid as place
                    from holdfast.waiting a
                    where a.bucket = p.place
                        and (a.priority, a.position) >= (p.floor_priority, p.floor_position)
                        and a.queue = any (served)
                        and (known is null or a.kind = any (known))
                        and a.kind <> all (paused_kinds)
                        and a.queue <> all (paused_queues)
                        and 'kind:' || a.kind <> all (rated_doors)
                        and 'queue:' || a.queue <> all (rated_doors)
                    order by a.priority, a.position, a.id
                    limit p.tasks
                    for update skip locked
                ) c
            ))
            returning w.id, w.bucket, w.kind, w.queue, w.timeout_seconds
        )
        select
            ids || coalesce(array_agg(t.id), '{}'), of_buckets || coalesce(array_agg(t.bucket), '{}'), of_kinds || coalesce(array_agg(t.kind), '{}'),
            of_queues || coalesce(array_agg(t.queue), '{}'), of_timeouts || coalesce(array_agg(t.timeout_seconds), '{}'),
            -- Only buckets that are limited or have no name of their own are claimed ahead of.
            of_owns || coalesce(array_agg(t.bucket <> t.kind || '@' || t.queue), '{}'), of_rates || coalesce(array_agg(false), '{}')
        into ids, of_buckets, of_kinds, of_queues, of_timeouts, of_owns, of_rates
        from taken t;
    end if;

    if cardinality(ids) > 0 then
        token := nextval('holdfast.fence');
        insert into holdfast.running (id, fence, started_at, deadline_at, worker)
        select u.id, token, now(), now() + make_interval(secs => coalesce(u.seconds, timeout)), holder
        from unnest(ids, of_timeouts) as u (id, seconds);

        with leased as (
            insert into holdfast.slots as s (worker, slots, epoch, bucket)
            select holder, count(*), of_epoch, n.name
            from unnest(of_buckets[:first_ids], of_kinds[:first_ids], of_queues[:first_ids], of_owns[:first_ids]) as u (bucket, kind, queue, own)
            cross join lateral (
                select u.bucket as name where u.own
                union all select 'kind:' || u.kind where 'kind:' || u.kind = any (leased_doors)
                union all select 'queue:' || u.queue where 'queue:' || u.queue = any (leased_doors)
            ) n
            group by n.name
            order by n.name
            on conflict (bucket, worker) do update
            set slots = s.slots + excluded.slots, epoch = excluded.epoch
            returning s.bucket, s.slots
        )
        select coalesce(jsonb_object_agg(l.bucket, jsonb_build_array(l.slots, b.capacity)), '{}') into leases
        from leased l
        left join holdfast.buckets b on b.name = l.bucket and b.kind is not null;

        if cardinality(rated_doors) > 0 or true = any (of_rates) then
        insert into holdfast.rates as r (spent_until, bucket)
        select moment + make_interval(secs => x.tasks * x.rate_seconds / x.rate_count), x.name
        from (
            select b.rate_seconds, b.rate_count, n.name, count(*) as tasks
            from unnest(of_buckets[:first_ids], of_kinds[:first_ids], of_queues[:first_ids], of_rates[:first_ids]) as u (bucket, kind, queue, rated)
            cross join lateral (
                select u.bucket as name, coalesce((select b.name from holdfast.buckets b where b.name = u.bucket), split_part(u.bucket, '=', 1) || '=*') as rule
                where u.rated
                union all select 'kind:' || u.kind, 'kind:' || u.kind where 'kind:' || u.kind = any (rated_doors)
                union all select 'queue:' || u.queue, 'queue:' || u.queue where 'queue:' || u.queue = any (rated_doors)
            ) n
            join holdfast.buckets b on b.name = n.rule
            group by b.rate_seconds, b.rate_count, n.name
        ) x
        order by x.name
        on conflict (bucket) do update
        set spent_until = greatest(r.spent_until, moment) + (excluded.spent_until - moment);
        end if;
    end if;

    if turned is not null then
        -- Back in line, unless it is full (whoever frees a slot offers it again) or empty.
        with heads as materialized (
            select
                t.bucket, h.queue, h.kind, t.capacity, t.rated, u.tasks is not null as served,
                -- To the end of the line by as much of its weight as was served: one of three by one chance in three.
                -- One that was passed over stays before the others, but not below the floors of those who look.
                case when random() < coalesce(u.tasks, 0) / t.weight
                    then clock + t.nth else greatest(t.turn, clock - 400000) end as turn
            from unnest(turned, turns_of, capacities, rated, weights) with ordinality as t (bucket, turn, capacity, rated, weight, nth)
            left join (
                select f.bucket, count(*) as tasks from unnest(of_buckets[:first_ids]) as f (bucket) group by f.bucket
            ) u on u.bucket = t.bucket
            cross join lateral (
                select w.queue, w.kind
                from holdfast.waiting w
                where w.bucket = t.bucket
                    and (w.priority, w.position) >= (
                        coalesce(floor_priorities[array_position(places, t.bucket)], 0::smallint),
                        coalesce(floor_positions[array_position(places, t.bucket)], 0)
                    )
                order by w.priority, w.position, w.id
                limit 1
            ) h
        ), again as (
            insert into holdfast.turns (turn, bucket, queue, kind)
            select
                case when h.rated then greatest(h.turn, (
                    select (extract(epoch from r.spent_until) * 1000000)::bigint
                        - ((coalesce(b.rate_ahead, l.rate_ahead) - 1) * coalesce(b.rate_seconds, l.rate_seconds) / coalesce(b.rate_count, l.rate_count) * 1000000)::bigint
                    from holdfast.rates r
                    left join holdfast.buckets b on b.name = h.bucket
                    left join holdfast.buckets l on b.name is null and l.name = split_part(h.bucket, '=', 1) || '=*'
                    where r.bucket = h.bucket
                )) else h.turn end,
                h.bucket, h.queue, h.kind
            from heads h
            where (h.capacity is null or h.capacity > (select coalesce(sum(s.slots), 0) from holdfast.slots s where s.bucket = h.bucket))
                -- A lane that was not served waits until the task ahead of it ends; or somebody else had its guard.
                and (h.bucket not like 'lane%' or h.bucket = any (of_buckets) or hashtext(h.bucket) & 16383 <> all (guarded))
            order by h.bucket
            on conflict (bucket) do nothing
        )
        select coalesce(jsonb_agg(h.bucket), '[]') into more
        from heads h
        -- Keys without a limit of their own are served in turn, each task by itself.
        where h.served and not h.rated and h.bucket not like 'lane%' and (h.capacity is not null or h.bucket = h.kind || '@' || h.queue);
    end if;
    if cardinality(places) > 0 then
        select more || coalesce(jsonb_agg(p.place), '[]') into more
        from unnest(places, floor_priorities, floor_positions) as p (place, floor_priority, floor_position)
        where exists (
            select from holdfast.waiting w
            where w.bucket = p.place and (w.priority, w.position) >= (p.floor_priority, p.floor_position)
        );
    end if;

    return query
    select
        null::text, null::bigint, null::text, null::text, null::smallint,
        jsonb_build_object('leased', leases, 'more', more, 'met', met, 'workers', workers)::text,
        null::smallint, null::timestamptz, now(), null::timestamptz, null::text, null::text, null::text, null::text, null::smallint,
        null::real, null::integer, null::smallint, null::smallint, null::integer, null::smallint, null::boolean, null::double precision[], now(), null::text[], null::boolean;
    return query
    select
        t.id::text, token, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
        t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, u.bucket, t.max_attempts, t.timeout_seconds,
        t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.alone, case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end, now(),
        array(
            select n.name
            from (
                select u.bucket as name where u.own
                union all select 'kind:' || u.kind where 'kind:' || u.kind = any (leased_doors)
                union all select 'queue:' || u.queue where 'queue:' || u.queue = any (leased_doors)
            ) n
        ),
        'kind:' || u.kind = any (rated_doors) or 'queue:' || u.queue = any (rated_doors) or u.rated
    from unnest(ids, of_buckets, of_kinds, of_queues, of_owns, of_rates) as u (id, bucket, kind, queue, own, rated)
    cross join lateral (
        select c.* from holdfast.tasks c where c.id = u.id offset 0
    ) t;
end
$$;


-- name: install_make_partition
-- One day of history, attempts or the delivery log, made apart and attached. Workers may make days; only the owner lets
-- them go. Answers whether it is new; someone else's lock is waited for at most 100 ms.
create or replace function holdfast.make_partition(parent text, day date) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    partition text := parent || to_char(day, '_YYYYMMDD');
    key_column text := case parent
        when 'task_history' then 'finished_at'
        when 'task_attempts' then 'ended_at'
        when 'webhook_attempts' then 'at'
    end;
    starts text := quote_literal(day || ' 00:00:00+00');
    ends text := quote_literal(day + 1 || ' 00:00:00+00');
begin
    if key_column is null or day not between current_date - 400 and current_date + 400 then
        raise exception using errcode = '22023', message = format('%s has no day %s', parent, day);
    end if;
    -- An advisory lock could be held by any login.
    lock table holdfast.migrations in share row exclusive mode;
    if exists (select from pg_inherits where inhrelid = to_regclass('holdfast.' || partition)) then
        return false;
    end if;
    execute format(
        'create table if not exists holdfast.%I (like holdfast.%I including defaults including constraints, '
        'check (%I >= %s and %I < %s)) with (autovacuum_vacuum_insert_scale_factor = 0.5)',
        partition, parent, key_column, starts, key_column, ends
    );
    execute format(
        'alter table holdfast.%I attach partition holdfast.%I for values from (%s) to (%s)',
        parent, partition, starts, ends
    );
    return true;
exception
    when lock_not_available then
        return false;
end
$$;


-- name: enqueue_many
-- Python's way through the same door. Text goes in binary (%b): quoted into an array's literal and read from
-- it again, it costs the driver and the server more than all the rest of a large payload.
select given::text, existing::text
from holdfast.enqueue_many(
    ids => %(ids)b::uuid[],
    kinds => %(kinds)b::text[],
    payloads => %(payloads)b::jsonb[],
    queues => %(queues)b::text[],
    priorities => %(priorities)s::smallint[],
    -- A delay becomes a moment here, because only the database's clock counts.
    run_ats => case when %(run_after)s::double precision[] is null then %(run_ats)s::timestamptz[] else array(
        select coalesce(u.at, clock_timestamp() + make_interval(secs => u.after))
        from unnest(%(run_ats)s::timestamptz[], %(run_after)s::double precision[]) with ordinality as u (at, after, nth)
        order by u.nth
    ) end,
    versions => %(versions)s::smallint[],
    subjects => %(subjects)b::text[],
    trace_ids => %(trace_ids)b::text[],
    keys => %(keys)b::text[],
    uniques => %(uniques)b::text[],
    key_seconds => %(key_seconds)s::double precision,
    expires_ats => case when %(expires_after)s::double precision[] is null then %(expires_ats)s::timestamptz[] else array(
        select coalesce(u.at, clock_timestamp() + make_interval(secs => u.after))
        from unnest(%(expires_ats)s::timestamptz[], %(expires_after)s::double precision[]) with ordinality as u (at, after, nth)
        order by u.nth
    ) end,
    bucket_names => %(bucket_names)b::text[],
    attempts_max => %(attempts_max)s::smallint[],
    timeouts => %(timeouts)s::real[],
    hints => %(hints)s::boolean
);


-- name: enqueue_after
-- A thin call, so that enqueueing from SQL and from Python share one function and its checks.
select given::text, existing::text
from holdfast.enqueue_after(
    id => %(id)s::uuid, predecessors => %(predecessors)s::uuid[], kind => %(kind)s, payload => %(payload)s::jsonb, queue => %(queue)s,
    priority => %(priority)s::smallint,
    run_at => coalesce(%(run_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(run_after)s::double precision)),
    version => %(version)s::smallint, subject => %(subject)s,
    trace_id => %(trace_id)s, key => %(key)s, uniqueness => %(unique)s, key_seconds => %(key_seconds)s::double precision,
    expires_at => coalesce(%(expires_at)s::timestamptz, clock_timestamp() + make_interval(secs => %(expires_after)s::double precision)),
    bucket => %(bucket)s, max_attempts => %(max_attempts)s::smallint,
    timeout_seconds => %(timeout_seconds)s::real
);


-- name: release_followups
-- A limited number at a time, so that one call of maintenance stays short.
select released, looked, waiting from holdfast.release_followups(%(limit)s::integer);


-- name: prune_followups
-- The row of a released task is read for as long as the task exists, and never after that.
delete from holdfast.followups f
where f.released_at is not null and not exists (select from holdfast.tasks t where t.id = f.task_id)
returning f.task_id;


-- name: predecessors
-- What became of the tasks that one came after, in the order in which they were given. One that is in neither
-- table completed so long ago that its retention is over; one that is live again was put back to work since.
select b.id::text, coalesce(t.kind, h.kind), case when t.id is null then 'completed' else coalesce(t.mark, 'queued') end, h.result::text, t.error_code, coalesce(t.error_message, t.mark_reason)
from holdfast.followups f
cross join lateral unnest(f.predecessors) with ordinality as b (id, nth)
left join lateral (select c.* from holdfast.tasks c where c.id = b.id offset 0) t on true
left join lateral (select c.* from holdfast.task_history c where c.id = b.id offset 0) h on t.id is null
where f.task_id = %(id)s::uuid
order by b.nth;


-- name: claim
-- A thin call: the function keeps its plans, and one round trip does the whole claim.
select * from holdfast.claim(
    %(queues)s::text[], %(priorities)s::smallint[], %(froms)s::timestamptz[], %(tos)s::timestamptz[], %(limit)s::integer,
    %(known)s::text[], %(worker)s::uuid, %(epoch)s::integer, %(at_once)s::integer, %(timeout)s::double precision, %(turns)s::boolean
);


-- name: claim_waiting
-- Called only where a turn has come: all other claims need not look behind buckets.
select * from holdfast.claim_waiting(
    %(queues)s::text[], %(kinds)s::text[], %(floors)s::bigint[], %(served)s::text[], %(known)s::text[], %(worker)s::uuid, %(epoch)s::integer,
    %(limit)s::integer, %(timeout)s::double precision,
    %(places)s::text[], %(ahead)s::integer[], %(floor_priorities)s::smallint[], %(floor_positions)s::bigint[], %(freed)s::text[], %(counts)s::integer[]
);


-- name: shunt
-- Apart from `claim`, so that moving many tasks does not make a claim take long.
select holdfast.shunt(%(queues)s::text[], %(priorities)s::smallint[], %(froms)s::timestamptz[], %(limit)s::integer);


-- name: complete
-- Success: out of running under the fence, out of tasks, into history, in one statement. Ids that do
-- not come back were refused. Slots of limits belong to the worker, not to the task: nothing is freed here.
with gone as (
    delete from holdfast.running r
    using unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(results)b::jsonb[]) as v (id, fence, result)
    cross join lateral (
        select c.ctid as place from holdfast.running c where c.id = v.id and c.fence = v.fence offset 0
    ) x
    where r.ctid = x.place
    returning r.id, r.fence, r.worker, r.started_at, v.result
), done as (
    delete from holdfast.tasks t
    using gone g
    cross join lateral (
        select c.ctid as place from holdfast.tasks c where c.id = g.id offset 0
    ) x
    where t.ctid = x.place
    returning t.id, t.enqueued_at, t.attempts, t.polls, t.failures, t.crashes, t.priority, t.version, t.kind,
        t.queue, t.payload, t.subject, t.trace_id, t.key, g.fence, g.worker, g.started_at, g.result
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select coalesce(%(now)s::timestamptz, now()), count(*), sum(date_part('epoch', now() - d.started_at)), d.kind, 'complete'
    from done d
    -- Asked once, whether or not any were done.
    where (select holdfast.require_moved((select count(*) from gone), (select count(*) from done)))
    group by d.kind
)
insert into holdfast.task_history (
    id, finished_at, enqueued_at, started_at, fence, worker, attempts, polls, failures, crashes,
    priority, version, kind, queue, payload, result, subject, trace_id, key
)
select
    d.id, coalesce(%(now)s::timestamptz, now()), d.enqueued_at, d.started_at, d.fence, d.worker, d.attempts + 1, d.polls,
    d.failures, d.crashes, d.priority, d.version, d.kind, d.queue,
    case when pg_column_size(d.payload) <= 2048 then d.payload end,
    d.result, d.subject, d.trace_id, d.key
from done d
returning id::text, fence;


-- name: settle
-- Every verdict but success: out of running under the fence, counters and marks in the facts, back to
-- ready where the task lives on, and a record of the attempt.
with verdicts as materialized (
    select v.*
    from jsonb_to_recordset(%(verdicts)s::jsonb) as v (
        id uuid, fence bigint, move text, after_seconds double precision, reason text, progress real,
        attempts integer, failures smallint, crashes smallint, polls integer, rate_limits smallint, alone boolean,
        failure_class text, error_code text, error_message text, error_stack text, fingerprint text, dead_reason text
    )
), clock as materialized (
    select coalesce(%(now)s::timestamptz, now()) as now
), gone as (
    delete from holdfast.running r
    using verdicts v
    cross join lateral (
        select c.ctid as place from holdfast.running c where c.id = v.id and c.fence = v.fence offset 0
    ) x
    where r.ctid = x.place
    returning
        r.worker, r.started_at, v.*,
        -- A claim that was asked to stop does not go back to the queue, however it ended.
        (
            select q.reason from holdfast.cancel_requests q
            where q.task_id = v.id and q.fence = v.fence
        ) as asked
), changed as (
    update holdfast.tasks t
    set attempts = t.attempts + g.attempts,
        failures = t.failures + g.failures,
        crashes = t.crashes + g.crashes,
        polls = t.polls + g.polls,
        rate_limits = t.rate_limits + g.rate_limits,
        alone = coalesce(g.alone, t.alone),
        progress = greatest(t.progress, g.progress),
        polling_since = case when g.move = 'snooze' then coalesce(t.polling_since, g.started_at) else t.polling_since end,
        progressed_at = case when g.move = 'snooze' and (t.progressed_at is null or g.progress > t.progress or t.progress is null and g.progress is not null)
            then g.started_at else t.progressed_at end,
        last_attempt_at = c.now,
        -- It had been due: a moment that lies ahead of the clock is of before the clock was put back.
        run_at = case when g.after_seconds is null then least(t.run_at, clock_timestamp())
            -- Woken while it was looking: what it saw may be old, so it looks again.
            when g.move = 'snooze' and exists (select from holdfast.wakes w where w.task_id = g.id and w.fence = g.fence) then clock_timestamp()
            else greatest(c.now + make_interval(secs => g.after_seconds), clock_timestamp()) end,
        mark = case when g.move = 'fail' then 'failed' when g.move = 'cancel' or g.asked is not null then 'cancelled' end,
        marked_at = case when g.move in ('fail', 'cancel') or g.asked is not null then c.now end,
        mark_reason = case when g.move = 'cancel' then g.reason when g.move <> 'fail' then g.asked end,
        dead_reason = g.dead_reason,
        failed_at = case when g.failure_class is null then t.failed_at else c.now end,
        failure_class = coalesce(g.failure_class, t.failure_class),
        error_code = case when g.failure_class is null then t.error_code else g.error_code end,
        error_message = case when g.failure_class is null then t.error_message else g.error_message end,
        error_stack = case when g.failure_class is null then t.error_stack else g.error_stack end,
        fingerprint = coalesce(g.fingerprint, t.fingerprint)
    from clock c
    cross join gone g
    cross join lateral (
        select p.ctid as place from holdfast.tasks p where p.id = g.id offset 0
    ) x
    where t.ctid = x.place
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position, t.mark
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
    where c.mark is null
), noted as (
    insert into holdfast.task_attempts (
        task_id, ended_at, started_at, fence, worker, ended_as, kind, reason, progress,
        failure_class, error_code, error_message, error_stack, fingerprint
    )
    select
        g.id, k.now, g.started_at, g.fence, g.worker, g.move, c.kind, g.reason, g.progress,
        g.failure_class, g.error_code, g.error_message, g.error_stack, g.fingerprint
    from gone g
    join changed c on c.id = g.id
    cross join clock k
), causes as (
    -- In their order, so that two who meet the same new causes cannot deadlock; a known one is only read.
    insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at)
    select distinct on (g.fingerprint) g.fingerprint, c.kind, g.failure_class, g.error_code, left(g.error_message, 500), k.now
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    where g.fingerprint is not null
    order by g.fingerprint
    on conflict do nothing
), met as (
    insert into holdfast.failure_deltas (failed_at, failures, fingerprint, release)
    select k.now, count(*), g.fingerprint, (select w.release from holdfast.workers w where w.id = g.worker)
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    where g.fingerprint is not null
    group by k.now, g.fingerprint, g.worker
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select k.now, count(*), sum(date_part('epoch', now() - g.started_at)), c.kind, g.move
    from gone g
    join changed c on c.id = g.id
    cross join clock k
    group by k.now, c.kind, g.move
)
select c.id::text, g.fence
from changed c
join gone g on g.id = c.id
where (select holdfast.require_moved((select count(*) from gone), (select count(*) from changed)));


-- name: free_slots
-- Names the epoch of the worker, because slots of an earlier connection were already counted away.
select holdfast.free_slots(%(worker)s::uuid, %(epoch)s::integer, %(names)s::text[], %(counts)s::integer[]);


-- name: set_slots
-- After an answer was lost: what the worker says that it holds is what it holds. The epoch makes void
-- whatever an older connection may still do.
with kept as materialized (
    select u.name, u.slots from unnest(%(names)s::text[], %(counts)s::integer[]) as u (name, slots)
), gone as (
    delete from holdfast.slots s
    where s.worker = %(worker)s::uuid and not exists (select from kept k where k.name = s.bucket)
    returning s.bucket
), changed as (
    update holdfast.slots s
    set slots = least(s.slots, k.slots), epoch = %(epoch)s::integer
    from kept k
    where s.bucket = k.name and s.worker = %(worker)s::uuid
    returning s.bucket
)
select bucket from gone union all select bucket from changed;


-- name: offer
-- Called after a limit was raised or tasks were put behind buckets: a bucket that was full has given up its turn.
select holdfast.offer(%(names)s::text[]);


-- name: offer_beside
-- Tasks left their buckets otherwise than by running: the next one of a lane may be at the head now, and those behind
-- may have waited for a claim to meet these in ready.
select holdfast.offer(array(
    select t.bucket from holdfast.tasks t where t.id = any (%(ids)s::uuid[]) and t.bucket is not null
));


-- name: stir
-- Gives a turn to buckets that have none, page by page: whoever should have given it may have died. Or the first
-- task is in a queue that nobody serves, and holds up those in others.
with recursive live as materialized (
    select nullif(array(
        select distinct u.queue from holdfast.workers w cross join unnest(w.queues) as u (queue)
        where w.lost_at is null and w.lease_expires_at > now()
            and not exists (select from holdfast.queues q where q.name = u.queue and q.paused_at is not null)
    ), '{}') as queues
), places as (
    (select w.bucket, 1 as nth from holdfast.waiting w where w.bucket > %(after)s and left(w.bucket, 6) <> 'after:' order by w.bucket limit 1)
    union all
    select (select w.bucket from holdfast.waiting w where w.bucket > p.bucket and left(w.bucket, 6) <> 'after:' order by w.bucket limit 1), p.nth + 1
    from places p
    where p.bucket is not null and p.nth < %(limit)s
), missing as materialized (
    select p.bucket from places p
    cross join lateral (
        select w.queue, w.kind from holdfast.waiting w
        where w.bucket = p.bucket and ((select l.queues from live l) is null or w.queue = any ((select l.queues from live l)::text[]))
        order by w.priority, w.position, w.id
        limit 1
    ) h
    where p.bucket is not null and not exists (
        -- Nor one in the name of a task that is not the first any more.
        select from holdfast.turns t where t.bucket = p.bucket and t.queue = h.queue and t.kind = h.kind
    )
)
select
    (select count(*) from missing),
    (select max(p.bucket) from places p where (select count(*) from places) >= %(limit)s),
    holdfast.offer(array(select m.bucket from missing m), (select l.queues from live l));


-- name: note_late
-- A refused late result leaves a record, never silence; and it is counted.
with noted as (
    insert into holdfast.task_attempts (
        task_id, ended_at, started_at, fence, worker, ended_as, kind, reason
    )
    select v.id, coalesce(%(now)s::timestamptz, now()), v.started_at, v.fence, %(worker)s::uuid, 'late', v.kind, v.reason
    from unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(kinds)s::text[], %(starts)s::timestamptz[], %(reasons)s::text[])
        as v (id, fence, kind, started_at, reason)
    returning ended_at, kind
)
insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
select n.ended_at, count(*), 0, n.kind, 'late' from noted n group by 1, 4;


-- name: may_be_late
-- Whether a worker has held a task under this fence, and no late result of it is on record.
select
    (
        exists (
            select from holdfast.task_attempts a
            where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid
        )
        or exists (
            select from holdfast.task_history h
            where h.id = %(task)s::uuid and h.fence = %(fence)s and h.worker = %(worker)s::uuid
        )
    )
    and not exists (
        select from holdfast.task_attempts a
        where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid and a.ended_as = 'late'
    );


-- name: settled_before
-- After an ambiguous settle: which of these verdicts did land, as told by history and attempts.
select v.id::text, v.fence
from unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(moves)s::text[]) as v (id, fence, move)
where v.move = 'complete' and exists (
        select from holdfast.task_history h
        where h.id = v.id and h.fence = v.fence
    )
    or exists (
        select from holdfast.task_attempts a
        where a.task_id = v.id and a.fence = v.fence and a.ended_as = v.move
    );


-- name: held
-- What stands in running under a worker's name, as `lapsed` shows it; without a kind where the facts were deleted.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, false as overdue
    from holdfast.running r
    where r.worker = %(worker)s::uuid
)
select {as_lapsed}, false as alone, t.failure_class is not distinct from 'worker_lost' as lost_before
from found f left join {tasks_found} on true;


-- name: held_task
-- The same of one task, which nobody takes back until this transaction ends.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, false as overdue
    from holdfast.running r
    where r.id = %(task)s::uuid and r.fence = %(fence)s and r.worker = %(worker)s::uuid
    for update
)
select {as_lapsed}, false as alone, false as lost_before from found f cross join {tasks_found};


-- name: lapsed
-- The claims of lost or unknown workers, and those past deadline and grace (which a step forward of the clock prolongs), with
-- the facts that `decide` needs. The fence makes the verdict safe, so nothing is locked here. Claims of deleted tasks are
-- included, with a null kind: if they were skipped, they would use up the limit at every call.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, w.id is not null as known, w.lost_at is null and w.id is not null as overdue
    from holdfast.running r
    left join holdfast.workers w on w.id = r.worker
    where w.id is null
        or w.lost_at is not null
        or r.deadline_at < now() - make_interval(secs => %(grace)s::double precision)
            - case when r.started_at <= %(before)s::timestamptz then make_interval(secs => %(forward)s::double precision) else interval '0' end
    -- All that a worker held at once: the last of them did not run alone because the others were taken back before it.
    order by r.worker
    fetch first %(limit)s rows with ties
), holding as materialized (
    -- In one pass: running has no order but that of its ids.
    select r.worker, count(*) as held from holdfast.running r where r.worker in (select f.worker from found f) group by r.worker
)
select
    {as_lapsed},
    -- Of a worker that is not known nothing is known: null.
    case when f.known then h.held = 1 end as alone,
    t.failure_class is not distinct from 'worker_lost' as lost_before
from found f
join holding h on h.worker = f.worker
left join {tasks_found} on true;


-- name: drop_missing
-- Of these claims those on tasks whose facts somebody has deleted: nothing is left to settle, and nobody would take them back.
delete from holdfast.running r
using unnest(%(ids)s::uuid[], %(fences)s::bigint[]) as v (id, fence)
where r.id = v.id and r.fence = v.fence and not exists (select from holdfast.tasks t where t.id = v.id)
returning r.id::text;


-- name: register_worker
-- The release is noted in the same statement, so that failures can be compared with when it first ran.
with known as (
    insert into holdfast.releases (release, first_seen_at) select %(release)s, now() where %(release)s::text is not null
    on conflict do nothing
)
insert into holdfast.workers (id, name, lease_expires_at, lease_seconds, queues, kinds, release)
values (
    %(worker)s::uuid, %(name)s, now() + make_interval(secs => %(lease)s::double precision), %(lease)s,
    %(queues)s::text[], %(kinds)s::text[], %(release)s
);


-- name: renew
-- One statement per supervisor and interval, whatever its executors hold; a worker declared lost stays
-- lost. One whose lease has ended and that nobody has declared lost still has all that it held: the clock may have
-- been put forward.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => %(lease)s::double precision)
where w.id = any (%(workers)s::uuid[]) and w.lost_at is null
returning w.id::text;


-- name: lose_workers
-- A worker whose lease has ended is declared lost before anything is taken from it.
with lost as (
    update holdfast.workers w
    set lost_at = now()
    where w.lost_at is null and w.lease_expires_at <= now()
    returning w.id
), freed as (
    -- Its slots come back with its lease; so do those that a lost or forgotten worker took in its last moment.
    -- Whoever renews at this moment is not among the lost.
    delete from holdfast.slots s
    where s.worker in (select l.id from lost l)
        or not exists (select from holdfast.workers w where w.id = s.worker and w.lost_at is null)
    returning s.bucket
)
select
    (select coalesce(array_agg(l.id::text), '{}') from lost l),
    (select coalesce(array_agg(distinct f.bucket), '{}') from freed f);


-- name: adjust_leases
-- After a step of the clock: restart leases that the step ended, and those that last longer than lease_seconds. Live workers
-- renew; dead ones are declared lost one lease later.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => coalesce(w.lease_seconds, %(lease)s))
where w.lost_at is null
    and (
        w.lease_expires_at <= now() and w.lease_expires_at > now() - make_interval(secs => %(forward)s::double precision)
        or w.lease_expires_at > now() + make_interval(secs => w.lease_seconds + 1)
    )
returning w.id::text;


-- name: retire_worker
-- Gone on purpose, or lost and with nothing left in its name.
with freed as (
    delete from holdfast.slots s where s.worker = %(worker)s::uuid returning s.bucket
), gone as (
    delete from holdfast.workers w
    where w.id = %(worker)s::uuid
        and not exists (select from holdfast.running r where r.worker = w.id)
    returning w.id
)
select exists (select from gone), (select coalesce(array_agg(f.bucket), '{}') from freed f);


-- name: live_outside
-- How many workers of a token are alive.
select count(*) from holdfast.workers w where w.token = %(token)s and w.lost_at is null and w.lease_expires_at > now();


-- name: register_outside
-- A worker in another language: its row is that of any worker, and it works in the name of a token.
insert into holdfast.workers (id, name, lease_expires_at, queues, kinds, token, lease_seconds)
values (
    %(worker)s::uuid, %(name)s, now() + make_interval(secs => %(lease)s::double precision),
    %(queues)s::text[], %(kinds)s::text[], %(token)s, %(lease)s
)
returning lease_expires_at;


-- name: renew_outside
-- Renews, and lets whoever else speaks for the same worker wait: what it holds is counted by one at a time.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => w.lease_seconds::double precision)
where w.id = %(worker)s::uuid and w.token = %(token)s and w.lost_at is null
returning w.lease_expires_at, w.queues, w.kinds;


-- name: lock_outside
-- A report needs no lease, as no settle does: the fence decides.
select w.id from holdfast.workers w where w.id = %(worker)s::uuid and w.token = %(token)s for update;


-- name: ended_as
-- How a claim ended, if it did in one of these ways.
select 'complete' as ended_as from holdfast.task_history h
where h.id = %(task)s::uuid and h.fence = %(fence)s and h.worker = %(worker)s::uuid and 'complete' = any (%(moves)s::text[])
union all
select a.ended_as from holdfast.task_attempts a
where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid and a.ended_as = any (%(moves)s::text[]);


-- name: has_slots
-- Saves counting all that an HTTP worker holds when the tasks that ended cannot have had a slot.
select exists (
    select from holdfast.slots s where s.bucket = any (%(names)s::text[]) and s.worker = %(worker)s::uuid
);


-- name: prune_workers
-- Lost workers of which nothing is left, after people had a day to see them.
delete from holdfast.workers w
where w.lost_at < now() - interval '1 day'
    and not exists (select from holdfast.running r where r.worker = w.id)
returning w.id::text;


-- name: take_maintenance
-- The lease on the chores: renewed by its holder, taken by another once it has ended. Answers whether it
-- is the caller's, and for how long it holds. A lease that ends later than lease_seconds from now was taken before the clock
-- was set back, and may be replaced.
with taken as (
    insert into holdfast.maintenance as m (name, holder, expires_at, lease_seconds)
    values ('maintenance', %(holder)s::uuid, now() + make_interval(secs => %(lease)s::double precision), %(lease)s)
    on conflict (name) do update
    set holder = excluded.holder, expires_at = excluded.expires_at, lease_seconds = excluded.lease_seconds
    where m.holder = excluded.holder or m.expires_at <= now() or m.expires_at > now() + make_interval(secs => m.lease_seconds + 1)
    returning m.expires_at
)
select true, extract(epoch from t.expires_at - now())::double precision from taken t
union all
select false, greatest(0, extract(epoch from m.expires_at - now()))::double precision
from holdfast.maintenance m
where not exists (select from taken);


-- name: leave_maintenance
-- Gives the lease up at once when its holder leaves, so that no other worker waits for it to expire.
delete from holdfast.maintenance m
where m.holder = %(holder)s::uuid;


-- name: request_cancel
-- Queued and paused tasks are cancelled here and now; a running one is asked to stop.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and (t.mark is null or t.mark = 'paused')
), dropped as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
    returning r.id
), stepped_out as (
    delete from holdfast.waiting w
    using facts f
    where w.id = f.id
    returning w.id
), asked as (
    insert into holdfast.cancel_requests (task_id, fence, requested_at, reason)
    -- Locked, so that a claim that is just being settled is not asked in vain.
    select r.id, r.fence, now(), %(reason)s
    from (
        select c.id, c.fence from holdfast.running c join facts f on f.id = c.id for share of c
    ) r
    on conflict (task_id, fence) do update set reason = excluded.reason
    returning task_id as id
), held as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = %(reason)s
    from facts f
    where t.id = f.id and t.mark = 'paused'
    returning t.id
), changed as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = %(reason)s
    from (select id from dropped union all select id from stepped_out) d
    where t.id = d.id and t.mark is null
    returning t.id
)
select id::text, false as asked from changed
union all
select id::text, false from held
union all
select id::text, true from asked;


-- name: wake
-- Moves the next poll of tasks that have snoozed forward, to now; never back. One that is polling just now is
-- told to poll once more. Answers which were moved, and which were told.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at, t.timeout_seconds, t.kind, t.bucket, t.position
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark is null
), told as (
    insert into holdfast.wakes (task_id, fence, woken_at)
    -- Locked, so that a claim that is just being settled is not told in vain.
    select r.id, r.fence, now()
    from (
        select c.id, c.fence from holdfast.running c join facts f on f.id = c.id for share of c
    ) r
    on conflict (task_id, fence) do nothing
    returning task_id as id
), taken as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
        and f.run_at > clock_timestamp()
        and exists (select from holdfast.tasks t where t.id = f.id and t.polls > 0)
    returning r.id
), changed as (
    update holdfast.tasks t
    set run_at = clock_timestamp()
    from taken k
    where t.id = k.id
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
)
select c.id::text, holdfast.hint(c.queue)::text from changed c
union all
select id::text, null from told;


-- name: still_due
-- After the clock was set back: tasks that were due stay due, and retries keep at most their original delay. Tasks that
-- were enqueued since then keep their time. Returns how many were moved.
with ahead as materialized (
    select r.ctid as place, t.last_attempt_at
    from holdfast.ready r
    cross join lateral (select c.enqueued_at, c.last_attempt_at from holdfast.tasks c where c.id = r.id offset 0) t
    where r.run_at > now() and r.run_at <= %(before)s::timestamptz + interval '1 hour'
        and (
            t.last_attempt_at > now()
            or r.run_at <= %(before)s::timestamptz and (t.enqueued_at > now() or t.enqueued_at < %(after)s::timestamptz)
        )
    order by r.run_at
    limit %(limit)s
    for update of r skip locked
), taken as (
    delete from holdfast.ready r
    using ahead a
    where r.ctid = a.place
    returning r.id
), changed as (
    update holdfast.tasks t
    set run_at = clock_timestamp() + case when t.run_at <= %(before)s::timestamptz then interval '0' else t.run_at - t.last_attempt_at end
    from taken k
    where t.id = k.id
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
)
select (select count(*) from changed), (select count(holdfast.hint(q.queue)::text) from (select distinct c.queue from changed c) q);


-- name: prune_wakes
-- A wake is for one claim. When that claim has ended, nothing reads the row any more.
delete from holdfast.wakes w
where not exists (select from holdfast.running r where r.id = w.task_id and r.fence = w.fence)
returning w.task_id;


-- name: cancel_requests
-- What a worker was asked to stop.
select q.task_id::text, q.fence, q.reason
from holdfast.cancel_requests q
join holdfast.running r on r.id = q.task_id and r.fence = q.fence
where r.worker = %(worker)s::uuid;


-- name: prune_cancel_requests
-- Requests whose claim has ended, however it ended.
delete from holdfast.cancel_requests q
where not exists (
    select from holdfast.running r
    where r.id = q.task_id and r.fence = q.fence
)
returning q.task_id::text;


-- name: expire
-- What did not start in time is cancelled, wherever it waits.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.expires_at <= now() and t.expires_at is not null and t.mark is distinct from 'failed' and t.mark is distinct from 'cancelled'
        and not exists (select from holdfast.running r where r.id = t.id)
    order by t.expires_at
    limit %(limit)s
), dropped as (
    -- What a producer or a claimer holds is left for the next round.
    delete from holdfast.ready r
    where r.ctid = any (array(
        select c.ctid
        from holdfast.ready c
        join facts f on c.queue = f.queue and c.priority = f.priority and c.run_at = f.run_at and c.id = f.id
        for update of c skip locked
    ))
    returning r.id
), stepped_out as (
    delete from holdfast.waiting w
    where w.ctid = any (array(select c.ctid from holdfast.waiting c join facts f on f.id = c.id for update of c skip locked))
    returning w.id
), held as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = 'expired'
    where t.ctid = any (array(
        select c.ctid from holdfast.tasks c join facts f on f.id = c.id where c.mark = 'paused' for update of c skip locked
    ))
    returning t.id
), changed as (
    update holdfast.tasks t
    set mark = 'cancelled', marked_at = now(), mark_reason = 'expired'
    from (select id from dropped union all select id from stepped_out) d
    where t.id = d.id and t.mark is null
    returning t.id
)
select id::text from changed
union all
select id::text from held;


-- name: pause
-- Only a queued task: one that runs is cancelled or waited for.
with facts as materialized (
    select t.id, t.queue, t.priority, t.run_at
    from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark is null
), dropped as (
    delete from holdfast.ready r
    using facts f
    where r.queue = f.queue and r.priority = f.priority and r.run_at = f.run_at and r.id = f.id
    returning r.id
), stepped_out as (
    delete from holdfast.waiting w
    using facts f
    where w.id = f.id
    returning w.id
), changed as (
    update holdfast.tasks t
    set mark = 'paused', marked_at = now(), mark_reason = %(reason)s
    where t.mark is null and t.id in (select id from dropped union all select id from stepped_out)
    returning t.id
)
select id::text from changed;


-- name: resume
-- A paused task goes back in at the clock of this moment, never behind the floor.
with xid as materialized (
    select pg_current_xact_id() as number
), changed as (
    update holdfast.tasks t
    set mark = null, marked_at = null, mark_reason = null, run_at = {due_from}
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark = 'paused'
        -- A write from outside may have left it one. Two rows of one task would stop every claim of its queue.
        and (
            {has_row}
        ) is not true
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;


-- name: redrive
-- An operator puts dead or cancelled tasks back to work with their counters cleared; the attempts
-- made so far stay on record.
with xid as materialized (
    select pg_current_xact_id() as number
), changed as (
    update holdfast.tasks t
    set {begun_anew} last_replayed_by = %(by)s, last_replay_reason = %(reason)s,
        run_at = {due_from}
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
        and (
            {has_row}
        ) is not true
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;


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


-- name: edit
-- A dead or cancelled task gets another payload, if it still has the one that was looked at; the old one is kept.
with found as materialized (
    select t.id, t.payload, t.version
    from holdfast.tasks t
    where t.id = %(id)s::uuid and t.mark in ('failed', 'cancelled') and md5(t.payload::text) = %(seen)s
    for update
), kept as (
    insert into holdfast.task_edits (task_id, edited_at, edited_by, reason, version, payload)
    select f.id, clock_timestamp(), %(by)s, %(reason)s, f.version, f.payload from found f
), changed as (
    update holdfast.tasks t
    set payload = %(payload)s::jsonb, version = %(version)s
    from found f
    where t.id = f.id
    returning t.id
)
select c.id::text from changed c;


-- name: lock_dead
-- Those of these tasks that are dead or cancelled, held until the caller commits.
select t.id::text from holdfast.tasks t
where t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
order by t.id
for update;


-- name: forget
-- Dead or cancelled tasks are let go for good, with what they were before.
with changed as (
    delete from holdfast.tasks t
    where t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')
    returning t.id, t.kind, t.key, t.bucket, t.position
), {traces_forgotten}
select c.id::text, case when c.position is not null then c.bucket end from changed c;


-- name: lock_tasks
-- Held until the caller commits, so that two who repair the same tasks do it one after the other.
select from holdfast.tasks t where t.id = any (%(ids)s::uuid[]) order by t.id for update;


-- name: remove_rows
-- Deletes the rows of these tasks in ready, waiting and running that should not be there: all of a task that is marked or
-- deleted, a row in ready that differs from tasks, and, of several rows, all except the one in running, else waiting. Rows
-- that are locked by others are skipped.
with wanted as materialized (
    select u.id, t.id is null or t.mark is not null as unwanted, t.queue, t.priority, t.run_at
    from unnest(%(ids)s::uuid[]) as u (id)
    left join holdfast.tasks t on t.id = u.id
), from_ready as (
    delete from holdfast.ready r
    where r.ctid = any (array(
        select c.ctid
        from holdfast.ready c
        join wanted n on n.id = c.id
        where n.unwanted or (c.queue, c.priority, c.run_at) is distinct from (n.queue, n.priority, n.run_at)
            or exists (select from holdfast.waiting o where o.id = c.id)
            or exists (select from holdfast.running o where o.id = c.id)
        for update of c skip locked
    ))
    returning r.id
), from_waiting as (
    delete from holdfast.waiting w
    where w.ctid = any (array(
        select c.ctid
        from holdfast.waiting c
        join wanted n on n.id = c.id
        where n.unwanted or exists (select from holdfast.running o where o.id = c.id)
        for update of c skip locked
    ))
    returning w.id
), from_running as (
    delete from holdfast.running u
    where u.ctid = any (array(
        select c.ctid from holdfast.running c join wanted n on n.id = c.id where n.unwanted for update of c skip locked
    ))
    returning u.id
)
select id::text from from_ready union select id::text from from_waiting union select id::text from from_running;


-- name: restore
-- Live tasks without a row in ready, waiting or running go back to ready, as they stand in tasks: what comes after others
-- still stands behind them. The caller holds their rows, and this is a statement of its own, so that it sees what was written before.
with xid as materialized (
    select pg_current_xact_id() as number
), there as materialized (
    select r.id from holdfast.ready r join unnest(%(ids)s::uuid[]) as u (id) on u.id = r.id
    union all
    select w.id from holdfast.waiting w where w.id = any (%(ids)s::uuid[])
    union all
    select x.id from holdfast.running x where x.id = any (%(ids)s::uuid[])
), changed as (
    update holdfast.tasks t
    set run_at = greatest(t.run_at, clock_timestamp())
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark is null
        and not exists (select from there h where h.id = t.id)
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;


-- name: close_kind
-- Tasks of the kind step behind its bucket as claims meet them; running ones go on.
insert into holdfast.buckets as b (name, kind, paused_at, paused_by, paused_until, pause_reason)
values ('kind:' || %(kind)s::text, %(kind)s, now(), %(by)s, %(until)s, %(reason)s)
on conflict (name) do update
set paused_at = coalesce(b.paused_at, excluded.paused_at),
    paused_by = excluded.paused_by, paused_until = excluded.paused_until, pause_reason = excluded.pause_reason;


-- name: open_kind
-- Answers the bucket only if it was paused, so that nobody is told of a change that did not happen.
update holdfast.buckets b
set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
where b.kind = %(kind)s and b.paused_at is not null
returning b.name;


-- name: gate_kind
-- Not every worker knows this kind: its tasks step behind a bucket, where only those who do look.
insert into holdfast.buckets as b (name, kind)
values ('kind:' || %(kind)s::text, %(kind)s)
on conflict (name) do nothing;


-- name: tend_gates
-- Marks the gates of kinds that no live worker serves, and opens those that every live worker passes.
-- Whatever still stands aside then is served from there.
with recursive waiting_kinds as (
    -- Each kind once, by as many probes of the index as there are kinds.
    (select w.kind from holdfast.waiting w order by w.kind limit 1)
    union all
    select (select w.kind from holdfast.waiting w where w.kind > k.kind order by w.kind limit 1)
    from waiting_kinds k
    where k.kind is not null
), live as materialized (
    select w.kinds from holdfast.workers w where w.lost_at is null and w.lease_expires_at > now()
), made as (
    -- Behind a limit nobody meets a task whose kind is not served, so nobody puts a gate before it.
    insert into holdfast.buckets as b (name, kind, parked_at)
    select 'kind:' || k.kind, k.kind, now()
    from waiting_kinds k
    where k.kind is not null
        and not exists (select from live l where k.kind = any (l.kinds))
        and not exists (select from holdfast.buckets g where g.kind = k.kind)
    order by 1
    on conflict (name) do nothing
    returning b.kind
), gates as materialized (
    select
        b.name, b.parked_at,
        b.paused_at is null and b.capacity is null and b.rate_count is null and coalesce(b.resumed_at < now() - interval '10 s', true) as idle,
        exists (select from live l where b.kind = any (l.kinds)) as served,
        exists (select from live l where b.kind <> all (l.kinds)) as unknown_to_some
    from holdfast.buckets b
    where b.kind is not null
), parked as (
    update holdfast.buckets b
    set parked_at = now()
    from gates g
    where b.name = g.name and not g.served and b.parked_at is null
    returning b.kind
), returned as (
    update holdfast.buckets b
    set parked_at = null
    from gates g
    where b.name = g.name and g.served and b.parked_at is not null
    returning b.kind
), opened as (
    delete from holdfast.buckets b
    using gates g
    where b.name = g.name and g.idle and g.served and not g.unknown_to_some and g.parked_at is null
        and b.paused_at is null and b.capacity is null and b.rate_count is null
)
select p.kind, 'parked' from parked p
union all
select m.kind, 'parked' from made m
union all
select r.kind, 'returned' from returned r
union all
select b.kind, 'waits'
from gates g
join holdfast.buckets b on b.name = g.name
where g.parked_at is not null and not g.served;


-- name: restart_gates
-- Whoever takes over the chores has not seen how long a kind was without a worker: its grace begins anew.
update holdfast.buckets b
set parked_at = now()
where b.parked_at is not null
returning b.kind;


-- name: unroute
-- Tasks that waited longer than the grace for a worker that knows their kind fail for good.
with stepped_out as (
    delete from holdfast.waiting w
    where w.ctid = any (array(
        select c.ctid
        from holdfast.buckets b
        join holdfast.waiting c on c.kind = b.kind
        where b.kind is not null and b.parked_at <= now() - make_interval(secs => %(grace)s::double precision)
            -- While nobody is there at all, nobody is missing.
            and exists (select from holdfast.workers l where l.lost_at is null and l.lease_expires_at > now())
        limit %(limit)s
        for update of c skip locked
    ))
    returning w.id
), changed as (
    update holdfast.tasks t
    set mark = 'failed', marked_at = now(), failed_at = now(), dead_reason = 'non_retryable',
        failure_class = 'unroutable', error_code = 'TASK_PAYLOAD_UNSUPPORTED',
        error_message = 'no worker has a handler for the kind ' || t.kind, error_stack = null,
        -- The group of core/fingerprint.py for this code; 'unroutable' stands for where it came from.
        fingerprint = left(encode(sha256(convert_to(concat_ws(chr(31), t.kind, 'TASK_PAYLOAD_UNSUPPORTED', 'unroutable'), 'UTF8')), 'hex'), 16)
    from stepped_out s
    where t.id = s.id and t.mark is null
    returning t.id, t.kind, t.fingerprint, t.error_message
), causes as (
    insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at)
    select distinct on (c.fingerprint) c.fingerprint, c.kind, 'unroutable', 'TASK_PAYLOAD_UNSUPPORTED', c.error_message, now()
    from changed c
    order by c.fingerprint
    on conflict do nothing
), met as (
    insert into holdfast.failure_deltas (failed_at, failures, fingerprint)
    select now(), count(*), c.fingerprint from changed c group by c.fingerprint
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select now(), count(*), 0, c.kind, 'fail' from changed c group by c.kind
)
select c.id::text from changed c;


-- name: pause_queue
-- A second pause changes reason and end, but keeps the moment since which nothing was claimed.
insert into holdfast.queues as q (name, paused_at, paused_by, paused_until, pause_reason)
values (%(queue)s, now(), %(by)s, %(until)s, %(reason)s)
on conflict (name) do update
set paused_at = coalesce(q.paused_at, now()), paused_by = excluded.paused_by,
    paused_until = excluded.paused_until, pause_reason = excluded.pause_reason;


-- name: resume_queue
-- Answers the queue only if it was paused, so that nobody is told of a change that did not happen.
update holdfast.queues q
set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
where q.name = %(queue)s and q.paused_at is not null
returning q.name;


-- name: reopen
-- Pauses whose end has come.
with kinds as (
    update holdfast.buckets b
    set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
    where b.paused_until <= now()
    returning b.name
), queues as (
    update holdfast.queues q
    set paused_at = null, paused_by = null, paused_until = null, pause_reason = null, resumed_at = now()
    where q.paused_until <= now()
    returning q.name
), risen as (
    -- Fully taken up again.
    update holdfast.queues q
    set resumed_at = null
    where q.resumed_at < now() - interval '10 s' and q.paused_at is null
)
select name from kinds
union all
select name from queues;


-- name: lock_running
-- A group with several kinds of verdicts is written by several statements; its rows are locked first,
-- in the order of their ids, so that two who settle the same tasks cannot deadlock. And whoever asks a running
-- task to stop or to poll again shares the lock of its row: what they wrote is seen by what comes after this.
select from holdfast.running r
where r.id = any (%(ids)s::uuid[])
order by r.id
for update;


-- name: take_sweep
-- One worker at a time walks below the floor of a queue; the winner sets when the next may.
insert into holdfast.sweeps as w (queue, due_at)
select u.queue, clock_timestamp() + make_interval(secs => %(every)s::double precision)
from unnest(%(queues)s::text[]) as u (queue)
order by u.queue
on conflict (queue) do update
set due_at = excluded.due_at
where w.due_at <= clock_timestamp()
returning w.queue;


-- name: prune_rates
-- What was spent of rates so long ago that it counts no more.
delete from holdfast.rates r
where r.ctid = any (array(
    select c.ctid from holdfast.rates c where c.spent_until < now() - interval '1 hour' limit %(limit)s for update skip locked
))
returning r.bucket;


-- name: prune_keys
-- Keys whose window is over, unless they still stand for a task that waits.
delete from holdfast.task_keys k
where k.ctid = any (array(
    select c.ctid
    from holdfast.task_keys c
    where c.expires_at <= now()
        and not exists (
            select from holdfast.tasks t
            where t.id = c.task_id and (t.mark is null or t.mark = 'paused')
        )
    order by c.expires_at
    limit %(limit)s
    for update skip locked
))
returning k.key;


-- name: prune_cancelled
-- Cancelled tasks past their retention; dead letters stay until someone forgets them.
delete from holdfast.tasks t
where t.ctid = any (array(
    select c.ctid
    from holdfast.tasks c
    where c.mark = 'cancelled' and c.marked_at <= coalesce(%(now)s::timestamptz, now()) - make_interval(days => %(days)s::integer)
    order by c.marked_at
    limit %(limit)s
    for update skip locked
))
returning t.id::text;
