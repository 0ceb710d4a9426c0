-- Who did what and why: written with the effect, sealed into a chain after its commit, pruned by one function.
--
-- What one statement notes is a chunk, numbered by a sequence; its rows are never changed. The number of
-- the chunk stands in audit_unsealed until the sealer has seen it, so what it sees is committed, and is
-- sealed in the order in which commits became visible to it. A seal covers the hashes of the rows of one chunk and
-- the seal before. A prune keeps the hash of each row that goes, and notes the digest of all of them in
-- an entry of its own, which is sealed like any other and never pruned: so verify accepts exactly those gaps.
--
-- Only these functions write to the tables of the audit. They run with the rights of the schema's owner, and triggers
-- refuse every other statement, the owner's included; no role has a right to the tables but to read.


-- name: install_audit_hash
-- Every column that a reader is shown, in one text that is the same wherever it is computed. The identity is covered
-- where an entry has one: entries from before those columns keep the hash that they were sealed with.
create or replace function holdfast.audit_hash(entry holdfast.audit_log) returns bytea
language sql
stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select sha256(convert_to(
        (
            jsonb_build_array(
                entry.chunk, entry.place,
                case
                    when entry.at between timestamptz '0001-01-01 00:00:00+00' and timestamptz '9999-12-31 00:00:00+00'
                        then to_jsonb((extract(epoch from entry.at) * 1000000)::bigint)
                    -- Such as infinity, which no bigint can hold.
                    else to_jsonb(extract(epoch from entry.at)::text)
                end,
                entry.action, entry.actor, entry.reason,
                entry.batch_id, entry.task_id, entry.kind, entry.subject, entry.trace_id, entry.details
            )
            || case
                when coalesce(entry.login, entry.token, entry.address) is null then '[]'
                else jsonb_build_array(jsonb_build_array(entry.login, entry.token, entry.address))
            end
        )::text,
        'UTF8'
    ))
$$;


-- name: install_proven_identity
-- Who is connected: the login as the server knows it, and the token and address that the HTTP API sets for each
-- transaction. These settings are believed from the schema's owner and from members of holdfast_api alone.
create or replace function holdfast.proven_identity(out login text, out token text, out address text)
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    login := session_user;
    if pg_has_role(session_user, current_user, 'member')
        or exists (select from pg_roles r where r.rolname = 'holdfast_api' and pg_has_role(session_user, r.oid, 'member'))
    then
        token := left(nullif(current_setting('holdfast_audit.token', true), ''), 300);
        address := left(nullif(current_setting('holdfast_audit.address', true), ''), 100);
    end if;
    -- Names that begin with holdfast: are for the code of the functions here, and a token has to be one that holds.
    if token like 'holdfast:%'
        or token not like 'proxy:%' and not exists (select from holdfast.api_tokens t where t.id = token and t.revoked_at is null)
    then
        token := null;
    end if;
    address := coalesce(address, host(inet_client_addr()));
end
$$;


-- name: install_audit_prune_days_min
-- The age in days below which no prune goes: HOLDFAST_AUDIT_PRUNE_DAYS_MIN as it was when `holdfast migrate` ran last.
create or replace function holdfast.audit_prune_days_min() returns integer
language sql immutable parallel safe
as $$ select {audit_prune_days_min}::integer $$;


-- name: install_add_entries
-- The one statement that adds entries: a chunk of them, one for each action. Granted to nobody: the functions below call it.
create or replace function holdfast.add_entries(
    actions text[], actor text, reason text, batch uuid, tasks uuid[], kinds text[], subjects text[], traces text[], details jsonb[], code text
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    me record;
    number bigint;
begin
    if cardinality(actions) = 0 then
        return null;
    end if;
    -- Bounded, so that any entry can be hashed and shown, and a page of entries has a bounded size.
    if octet_length(actor) > 2000 or octet_length(reason) > 16000 or cardinality(actions) > 100000
        or exists (select from unnest(actions) a where a is null or a !~ '^[A-Z][A-Z_]{0,99}$')
        or exists (
            select from unnest(details) d
            where pg_column_size(d) > 512 and (octet_length(d::text) > 64000 or d @? 'strict $.**{64} ? (@.type() == "object" || @.type() == "array")')
        )
        or (select sum(pg_column_size(d)) from unnest(details) d) > 16000000
    then
        raise exception using
            errcode = 'HF008',
            message = 'this cannot be an entry of the audit: the action is a name in capitals, the actor has up to 2000 bytes, '
                'the reason up to 16000, and the details up to 64000 and 64 levels';
    end if;
    select i.* into me from holdfast.proven_identity() i;
    insert into holdfast.audit_unsealed as u (chunk) values (nextval('holdfast.audit_chunk'))
    on conflict (chunk) do update set chunk = excluded.chunk
    returning u.chunk into number;
    insert into holdfast.audit_log (chunk, place, at, action, actor, reason, batch_id, task_id, kind, subject, trace_id, details, login, token, address)
    select
        number, e.place, clock_timestamp(), e.action, add_entries.actor, add_entries.reason, add_entries.batch, e.task,
        left(e.kind, 1000), left(e.subject, 1000), left(e.trace, 1000), e.details,
        me.login, coalesce(me.token, add_entries.code), me.address
    from unnest(actions, tasks, kinds, subjects, traces, add_entries.details)
        with ordinality as e (action, task, kind, subject, trace, details, place);
    return number;
end
$$;
-- Here too, because an upgrade adds it before anybody has run the grants again.
revoke all on function holdfast.add_entries from public;


-- name: install_note
-- One entry about no task in particular; answers its chunk. Entries about prunes are made by prunes alone. `code` is
-- holdfast:… where no person asked for it; where the API says whose token it is, that stands there instead.
create or replace function holdfast.note(
    action text, actor text, reason text, batch uuid default null, kind text default null, details jsonb default null, code text default null
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if action = 'TASK_AUDIT_PRUNE_SUMMARY' then
        raise exception using errcode = 'HF008', message = 'an entry TASK_AUDIT_PRUNE_SUMMARY is made by a prune only';
    end if;
    return holdfast.add_entries(
        array[action], actor, reason, batch, array[null::uuid], array[kind], array[null::text], array[null::text], array[details],
        substring(code from '^holdfast:[a-z]{1,40}$')
    );
end
$$;


-- name: install_note_tasks
-- One entry for each of these tasks, as they stand now.
create or replace function holdfast.note_tasks(action text, actor text, reason text, ids uuid[], batch uuid default null, details jsonb default null)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if action = 'TASK_AUDIT_PRUNE_SUMMARY' then
        raise exception using errcode = 'HF008', message = 'an entry TASK_AUDIT_PRUNE_SUMMARY is made by a prune only';
    end if;
    perform holdfast.add_entries(
        array_agg(note_tasks.action), note_tasks.actor, note_tasks.reason, note_tasks.batch,
        array_agg(u.id order by u.place), array_agg(t.kind order by u.place), array_agg(t.subject order by u.place),
        array_agg(t.trace_id order by u.place), array_agg(note_tasks.details), null
    )
    from unnest(ids) with ordinality as u (id, place)
    left join holdfast.tasks t on t.id = u.id
    having count(*) > 0;
end
$$;


-- name: install_note_items
-- One entry for each item that a driver dealt with, in the name of whoever started the plan; the identity says that code
-- made it. Answers the chunk, so that the statement that calls it can wait for it.
create or replace function holdfast.note_items(
    plan_action text, actor text, reason text, batch uuid, outcomes text[], ids uuid[], kinds text[], subjects text[], traces text[], details jsonb[]
) returns bigint
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return holdfast.add_entries(
        array(
            select case plan_action when 'forget' then 'TASK_FORGET_BATCH_' else 'TASK_RETRY_BATCH_' end || o.outcome
            from unnest(outcomes) with ordinality as o (outcome, place)
            order by o.place
        ),
        actor, reason, batch, ids, kinds, subjects, traces, details, 'holdfast:plan'
    );
end
$$;


-- name: install_seal_audit
-- Adds committed chunks to the chain, one sealer at a time; answers how many, and the head. What cannot be sealed
-- (a chunk that is sealed already, has no entries, or cannot be read) is left for `verify` to report and holds up nothing.
-- The lock is one that no other login can take but by sealing: an advisory lock could be held by anybody. A sealer that
-- does not commit is waited for no longer than this; `verify` says so.
create or replace function holdfast.seal_audit(most integer, out sealed integer, out head_number bigint, out head_hash text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '2s'
as $$
declare
    head record;
    next bigint;
    found_entries integer;
    hashes bytea;
begin
    {reads_committed}
    lock table holdfast.audit_seals in share row exclusive mode;
    sealed := 0;
    select s.number, s.hash into head from holdfast.audit_seals s order by s.number desc limit 1;
    head_number := coalesce(head.number, 0);
    for next in
        select u.chunk from holdfast.audit_unsealed u
        where not exists (select from holdfast.audit_seals s where s.chunk = u.chunk)
        order by u.chunk
    loop
        exit when sealed >= coalesce(most, 0);
        begin
            select count(*)::integer, string_agg(holdfast.audit_hash(a), ''::bytea order by a.place) into found_entries, hashes
            from holdfast.audit_log a
            where a.chunk = next;
        exception when others then
            found_entries := 0;
        end;
        continue when found_entries = 0;
        head_number := head_number + 1;
        head.hash := sha256(coalesce(head.hash, ''::bytea) || int8send(next) || hashes);
        insert into holdfast.audit_seals (number, chunk, entries, hash, sealed_at)
        values (head_number, next, found_entries, head.hash, clock_timestamp());
        delete from holdfast.audit_unsealed u where u.chunk = next;
        sealed := sealed + 1;
    end loop;
    head_hash := encode(head.hash, 'hex');
end
$$;


-- name: install_prune_entries
-- Lets the content of old, sealed entries go and keeps their hashes, under an entry that says so. Entries
-- about prunes stay: without them nobody could tell a prune from a theft. Granted to nobody: the two below call it.
create or replace function holdfast.prune_entries(
    actor text, reason text, code text, before timestamptz, most integer,
    only_action text, only_actor text, only_subject text, only_kind text, only_trace text, only_batch uuid
) returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    batch uuid := gen_random_uuid();
    pruned integer;
    digest bytea;
begin
    with gone as materialized (
        insert into holdfast.audit_pruned (chunk, place, batch_id, hash)
        select a.chunk, a.place, batch, holdfast.audit_hash(a)
        from holdfast.audit_log a
        where a.at < before
            and a.action <> 'TASK_AUDIT_PRUNE_SUMMARY'
            and (only_action is null or a.action = only_action)
            and (only_actor is null or a.actor = only_actor)
            and (only_subject is null or a.subject = only_subject)
            and (only_kind is null or a.kind = only_kind)
            and (only_trace is null or a.trace_id = only_trace)
            and (only_batch is null or a.batch_id = only_batch)
            and exists (select from holdfast.audit_seals s where s.chunk = a.chunk)
        order by a.chunk, a.place
        limit greatest(0, least(coalesce(most, 0), 100000))
        on conflict do nothing
        returning chunk, place, hash
    )
    select count(*), sha256(string_agg(int8send(g.chunk) || int4send(g.place) || g.hash, ''::bytea order by g.chunk, g.place))
    into pruned, digest from gone g;
    if pruned = 0 then
        return 0;
    end if;
    delete from holdfast.audit_log a using holdfast.audit_pruned p
    where p.batch_id = batch and a.chunk = p.chunk and a.place = p.place;
    perform holdfast.add_entries(
        array['TASK_AUDIT_PRUNE_SUMMARY'], actor, reason, batch, array[null::uuid], array[null::text], array[null::text], array[null::text],
        array[jsonb_strip_nulls(jsonb_build_object(
            'pruned', pruned, 'olderThan', before, 'digest', encode(digest, 'hex'), 'action', only_action, 'actor', only_actor,
            'subject', only_subject, 'kind', only_kind, 'trace', only_trace, 'batch', only_batch
        ))],
        code
    );
    return pruned;
end
$$;
-- Here too, because an upgrade adds it before anybody has run the grants again.
revoke all on function holdfast.prune_entries from public;


-- name: install_prune_audit
-- The prune of an operator: with a filter and a reason, and never below the minimum age.
create or replace function holdfast.prune_audit(
    actor text, reason text, before timestamptz, most integer,
    only_action text default null, only_actor text default null, only_subject text default null,
    only_kind text default null, only_trace text default null, only_batch uuid default null
) returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if holdfast.audit_prune_days_min() > 0 and before > clock_timestamp() - make_interval(days => holdfast.audit_prune_days_min()) then
        raise exception using
            errcode = 'HF009',
            message = format(
                'entries of the audit younger than %1$s cannot be pruned: ask for at least %1$s, or let the owner of the schema run '
                '`holdfast migrate` with another HOLDFAST_AUDIT_PRUNE_DAYS_MIN',
                case holdfast.audit_prune_days_min() when 1 then '1 day' else holdfast.audit_prune_days_min() || ' days' end
            );
    end if;
    return holdfast.prune_entries(actor, reason, null, before, most, only_action, only_actor, only_subject, only_kind, only_trace, only_batch);
end
$$;


-- name: install_prune_audit_expired
-- The prune of maintenance: everything, without a word of its own, and never below the minimum age.
create or replace function holdfast.prune_audit_expired(before timestamptz, most integer) returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if holdfast.audit_prune_days_min() > 0 then
        before := least(before, clock_timestamp() - make_interval(days => holdfast.audit_prune_days_min()));
    end if;
    return holdfast.prune_entries(
        'holdfast', 'older than HOLDFAST_AUDIT_TTL_DAYS', 'holdfast:maintenance', before, most, null, null, null, null, null, null
    );
end
$$;


-- name: note
-- Entries are written through a function only, so that no caller can choose who is recorded as proven.
select holdfast.note(%(action)s, %(actor)s, %(reason)s, %(batch)s::uuid, %(kind)s, %(details)s::jsonb, %(code)s);


-- name: note_tasks
-- One call for many tasks, so that all of their entries are part of the same transaction as the act.
select holdfast.note_tasks(%(action)s, %(actor)s, %(reason)s, %(ids)s::uuid[], %(batch)s::uuid, %(details)s::jsonb);


-- name: seal
-- Apart from writing: a chain that every act extended would make all of them wait for each other.
select s.sealed, s.head_number, s.head_hash from holdfast.seal_audit(%(most)s) s;


-- name: prune
-- Only the function may delete entries. It records the prune, and refuses entries that are too recent.
select holdfast.prune_audit(
    %(by)s, %(reason)s, %(before)s::timestamptz, %(limit)s, %(action)s, %(actor)s, %(subject)s, %(kind)s, %(trace)s, %(batch)s::uuid
);


-- name: prune_expired
-- Maintenance may not choose a filter: it deletes by age alone, with the same record and the same bounds.
select holdfast.prune_audit_expired(%(before)s::timestamptz, %(limit)s);


-- name: prunable
-- What a prune would let go; what is not sealed yet is sealed before it is pruned.
select count(*)
from holdfast.audit_log a
where a.at < %(before)s::timestamptz
    and a.action <> 'TASK_AUDIT_PRUNE_SUMMARY'
    and {audit_entries};


-- name: identity
-- A refused approval names who asks, by the same function that the check uses.
select i.login, i.token from holdfast.proven_identity() i;
