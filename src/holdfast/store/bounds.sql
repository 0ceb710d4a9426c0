-- The bounds of a new task, for whoever enqueues from SQL: the same that core/bounds.py has, in the same words.
--
-- They are checked here and not by constraints, because those would be checked again with every update of a task.


-- name: install_payload_bytes_max
-- The largest payload in bytes: HOLDFAST_PAYLOAD_BYTES_MAX as it was when `holdfast migrate` ran last.
create or replace function holdfast.payload_bytes_max() returns bigint
language sql immutable parallel safe
as $$ select {payload_bytes_max}::bigint $$;


-- name: install_is_own_session
-- Whether whoever has logged in is Holdfast itself: the owner of the tables, a worker or an API. Only these make tasks
-- of reserved kinds; producers reach those through the checked function of a feature, such as `publish_event`.
create or replace function holdfast.is_own_session() returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select exists (
        select from pg_roles r
        where (
                r.rolname in ('holdfast_worker', 'holdfast_api', 'holdfast_operator')
                or r.oid = (select c.relowner from pg_class c where c.oid = 'holdfast.tasks'::regclass)
            )
            and pg_has_role(session_user, r.oid, 'member')
    )
$$;


-- name: install_refuse_reserved
-- Refuses reserved kinds before anything is done for them, also for tasks that would not be made because of their key.
create or replace function holdfast.refuse_reserved(kinds text[]) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    reserved text;
begin
    select k into reserved
    from unnest(kinds) k
    where split_part(k, '.', 1) in ('holdfast', 'webhook') and strpos(k, '.') > 0 and k <> 'webhook.publish'
    limit 1;
    if reserved is not null and not holdfast.is_own_session() then
        raise exception using
            errcode = 'HF005',
            message = format('%L cannot be enqueued: kinds that begin with %s. are Holdfast''s own', reserved, split_part(reserved, '.', 1));
    end if;
end
$$;


-- name: install_check_task
-- Answers the payload of a new task, or raises what is wrong with the task. Most tasks are recognised without
-- this call, by the piece `checked_payload`.
create or replace function holdfast.check_task(
    id uuid, kind text, queue text, bucket text, subject text, trace_id text, key text, payload jsonb
) returns jsonb
language plpgsql stable
as $$
declare
    -- What stands before the first colon; a name without one has none.
    kind_prefix text := left(kind, strpos(kind, ':'));
    bucket_prefix text := left(bucket, strpos(bucket, ':'));
    wrong text;
    after_own boolean := false;
    size bigint;
    -- The text of the payload without its strings.
    bare text;
begin
    if bucket = 'after:' || id then
        -- Only `enqueue_after` makes a row of followups for a task before the task itself.
        after_own := exists (select from holdfast.followups f where f.task_id = check_task.id and f.released_at is null);
    end if;
    wrong := case
        when coalesce(kind, '') = '' then 'a task needs a kind'
        when length(kind) > 200 then format('a kind of %s characters is too long: it is a name of up to 200', length(kind))
        when kind_prefix in ('after:', 'lane:', 'lane!:')
            then format('%L cannot be a kind: names that begin with %s are taken', kind, kind_prefix)
        when queue = '' then 'queue is empty: leave it out, or give it a name'
        when length(queue) > 200 then format('a queue of %s characters is too long: it is a name of up to 200', length(queue))
        when queue = 'holdfast' and not (split_part(kind, '.', 1) = 'holdfast' and strpos(kind, '.') > 0) then 'the queue holdfast is for Holdfast''s own tasks'
        when bucket in ('', 'lane:', 'lane!:')
            or bucket_prefix in ('kind:', 'queue:')
            -- An empty key, or `*`, which names the limit of every key.
            or bucket_prefix not in ('lane:', 'lane!:') and substr(bucket, nullif(strpos(bucket, '='), 0)) in ('=', '=*')
            or bucket_prefix = 'after:' and not after_own
            then format('%L cannot be the bucket of a task: it is lane:NAME, lane!:NAME or KIND/FIELD=VALUE', bucket)
    end;
    if wrong is null then
        -- PostgreSQL refuses an index entry of more than 2,704 bytes.
        select format('the %s of a %s task has %s bytes, the limit is 1000', l.what, kind, octet_length(l.label)) into wrong
        from (values (1, 'bucket', bucket), (2, 'subject', subject), (3, 'trace id', trace_id), (4, 'key', key)) as l (nth, what, label)
        where octet_length(l.label) > 1000
        order by l.nth
        limit 1;
    end if;
    if wrong is not null then
        raise exception using errcode = 'HF005', message = wrong;
    end if;
    if kind = 'webhook.publish' and not holdfast.is_own_session() then
        perform holdfast.check_event(payload);
    end if;
    size := octet_length(payload::text);
    if size > holdfast.payload_bytes_max() then
        -- As it may have been sent: jsonb puts a blank after each comma and colon, which is less than half of the text.
        if size <= holdfast.payload_bytes_max() * 2 then
            bare := regexp_replace(payload::text, '"([^"\\]|\\.)*"', '', 'g');
            size := size - (length(bare) - length(replace(bare, ' ', '')));
        end if;
        if size > holdfast.payload_bytes_max() then
            raise exception using
                errcode = 'HF003',
                message = format(
                    'the payload of a %s task has %s bytes, the limit is %s: '
                    'store the content elsewhere and enqueue a reference to it',
                    kind, size, holdfast.payload_bytes_max()
                ),
                hint = 'The limit is HOLDFAST_PAYLOAD_BYTES_MAX as it was when `holdfast migrate` ran last.';
        end if;
    end if;
    if payload @? 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")' then
        raise exception using errcode = 'HF004', message = format('the payload of a %s task is nested more than 64 deep', kind);
    end if;
    return payload;
end
$$;
