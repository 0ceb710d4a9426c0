-- Reserves idempotency keys for new tasks, and prunes expired ones.


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
                    perform from holdfast.blocked w where w.id = holder for key share;
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
                    delete from holdfast.blocked w where w.id = holder returning w.id
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
                    'the key %L of kind %L stands for task %s, whose row in ready, blocked or running is missing or differs from tasks: '
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
