-- Inserts tasks that wait for others, and moves them to `ready` when those have ended.


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
                delete from holdfast.blocked w
                where w.ctid = any (array(select c.ctid from holdfast.blocked c where c.id = f.task_id for update skip locked))
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
