-- Inserts new tasks: rows of `tasks` and of `ready` or `blocked`, in the transaction of the caller.


-- shared: checked_payload
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
        insert into holdfast.blocked (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_blocked}
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
