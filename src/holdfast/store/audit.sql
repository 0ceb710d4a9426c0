-- Who did what and why: written with the effect, sealed into a chain after its commit, let go by one door.
--
-- What one statement notes is a chunk, numbered by a sequence; its rows are never changed. The number of
-- the chunk stands in audit_unsealed until the sealer has seen it, so what it sees is committed, and is
-- sealed in the order in which commits became visible to it. A seal covers the hashes of the rows of one chunk and
-- the seal before. A prune keeps the hash of each row that goes, and notes the digest of all of them in
-- an entry of its own, which is sealed like any other and never pruned: so verify accepts exactly those gaps.


-- name: install_audit_hash
-- Every column that a reader is shown, in one text that is the same wherever it is computed.
create or replace function holdfast.audit_hash(entry holdfast.audit_log) returns bytea
language sql
stable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select sha256(convert_to(
        jsonb_build_array(
            entry.chunk, entry.place, (extract(epoch from entry.at) * 1000000)::bigint, entry.action, entry.actor, entry.reason,
            entry.batch_id, entry.task_id, entry.kind, entry.subject, entry.trace_id, entry.details
        )::text,
        'UTF8'
    ))
$$;


-- name: install_note
-- One entry about no task in particular; answers its chunk.
create or replace function holdfast.note(action text, actor text, reason text, batch uuid default null, kind text default null, details jsonb default null)
returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $$
    with chunk as (
        insert into holdfast.audit_unsealed (chunk) select nextval('holdfast.audit_chunk') returning chunk
    )
    insert into holdfast.audit_log (chunk, place, at, action, actor, reason, batch_id, kind, details)
    select c.chunk, 1, clock_timestamp(), note.action, note.actor, note.reason, note.batch, note.kind, note.details from chunk c
    returning chunk
$$;


-- name: install_note_tasks
-- One entry for each of these tasks, as they stand now.
create or replace function holdfast.note_tasks(action text, actor text, reason text, ids uuid[], batch uuid default null, details jsonb default null)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    with chunk as (
        insert into holdfast.audit_unsealed (chunk) select nextval('holdfast.audit_chunk') where cardinality(ids) > 0 returning chunk
    )
    insert into holdfast.audit_log (chunk, place, at, action, actor, reason, batch_id, task_id, kind, subject, trace_id, details)
    select c.chunk, u.place, clock_timestamp(), note_tasks.action, note_tasks.actor, note_tasks.reason, note_tasks.batch, u.id, t.kind, t.subject, t.trace_id, note_tasks.details
    from chunk c
    cross join unnest(ids) with ordinality as u (id, place)
    left join holdfast.tasks t on t.id = u.id
$$;


-- name: install_seal_audit
-- Adds committed chunks to the chain, one sealer at a time; answers how many, and the head.
create or replace function holdfast.seal_audit(most integer, out sealed integer, out head_number bigint, out head_hash text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    head record;
    next record;
begin
    perform pg_advisory_xact_lock(hashtextextended('holdfast.audit', 0));
    sealed := 0;
    select s.number, s.hash into head from holdfast.audit_seals s order by s.number desc limit 1;
    head_number := coalesce(head.number, 0);
    head_hash := encode(head.hash, 'hex');
    for next in
        with taken as materialized (
            delete from holdfast.audit_unsealed u
            where u.ctid = any (array(select c.ctid from holdfast.audit_unsealed c order by c.chunk limit most for update skip locked))
            returning u.chunk
        )
        select t.chunk, count(*)::integer as entries, string_agg(holdfast.audit_hash(a), ''::bytea order by a.place) as hashes
        from taken t
        join holdfast.audit_log a on a.chunk = t.chunk
        group by t.chunk
        order by t.chunk
    loop
        head_number := head_number + 1;
        head.hash := sha256(coalesce(head.hash, ''::bytea) || int8send(next.chunk) || next.hashes);
        insert into holdfast.audit_seals (number, chunk, entries, hash, sealed_at)
        values (head_number, next.chunk, next.entries, head.hash, clock_timestamp());
        sealed := sealed + 1;
    end loop;
    head_hash := encode(head.hash, 'hex');
end
$$;


-- name: install_prune_audit
-- Lets the content of old, sealed entries go and keeps their hashes, under an entry that says so. Entries
-- about prunes stay: without them nobody could tell a prune from a theft.
create or replace function holdfast.prune_audit(
    actor text, reason text, before timestamptz, most integer,
    only_action text default null, only_actor text default null, only_subject text default null,
    only_kind text default null, only_trace text default null, only_batch uuid default null
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
        limit most
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
    perform holdfast.note(
        'TASK_AUDIT_PRUNE_SUMMARY', actor, reason, batch, null,
        jsonb_strip_nulls(jsonb_build_object(
            'pruned', pruned, 'olderThan', before, 'digest', encode(digest, 'hex'), 'action', only_action, 'actor', only_actor,
            'subject', only_subject, 'kind', only_kind, 'trace', only_trace, 'batch', only_batch
        ))
    );
    return pruned;
end
$$;


-- name: note
select holdfast.note(%(action)s, %(actor)s, %(reason)s, %(batch)s::uuid, %(kind)s, %(details)s::jsonb);


-- name: note_tasks
select holdfast.note_tasks(%(action)s, %(actor)s, %(reason)s, %(ids)s::uuid[], %(batch)s::uuid, %(details)s::jsonb);


-- name: seal
select s.sealed, s.head_number, s.head_hash from holdfast.seal_audit(%(most)s) s;


-- name: prune
select holdfast.prune_audit(
    %(by)s, %(reason)s, %(before)s::timestamptz, %(limit)s, %(action)s, %(actor)s, %(subject)s, %(kind)s, %(trace)s, %(batch)s::uuid
);


-- name: prunable
-- What a prune would let go; what is not sealed yet is sealed before it is pruned.
select count(*)
from holdfast.audit_log a
where a.at < %(before)s::timestamptz
    and a.action <> 'TASK_AUDIT_PRUNE_SUMMARY'
    and {audit_entries};


-- name: entries
-- A page of entries, the newest first.
select
    a.chunk, a.place, a.at, a.action, a.actor, a.reason, a.batch_id::text, a.task_id::text, a.kind, a.subject, a.trace_id, a.details
from ({entries_looked_at}) a
where {audit_entries}
order by a.chunk desc, a.place desc
limit %(limit)s
offset %(offset)s;


-- name: count_entries
-- How many there are among those looked at, and how many were.
select count(*) filter (where {audit_entries}), count(*)
from ({entries_looked_at}) a;


-- name: verify_seals
-- Every seal whose chunk is not what was sealed, or whose place in the chain is wrong.
with hashes as (
    select a.chunk, a.place, holdfast.audit_hash(a) as hash from holdfast.audit_log a
    union all
    select p.chunk, p.place, p.hash from holdfast.audit_pruned p
), chunks as (
    select h.chunk, count(*) as entries, string_agg(h.hash, ''::bytea order by h.place) as hashes
    from hashes h
    group by h.chunk
), chain as (
    select s.*, lag(s.number, 1, 0::bigint) over (order by s.number) as number_before, lag(s.hash, 1, ''::bytea) over (order by s.number) as hash_before
    from holdfast.audit_seals s
)
select
    s.number, s.chunk,
    case
        when s.number <> s.number_before + 1 then 'the seal before it is missing'
        when c.chunk is null then 'its entries are missing'
        when c.entries < s.entries then 'entries of it are missing'
        when c.entries > s.entries then 'entries were added to it'
        else 'an entry of it, or the seal, was changed'
    end
from chain s
left join chunks c on c.chunk = s.chunk
where s.number <> s.number_before + 1
    or c.chunk is null
    or c.entries <> s.entries
    or s.hash <> sha256(s.hash_before || int8send(s.chunk) || c.hashes)
order by s.number
limit %(limit)s;


-- name: verify_strays
-- Entries that are in no chain and do not wait to be.
select a.chunk, a.place
from holdfast.audit_log a
where not exists (select from holdfast.audit_seals s where s.chunk = a.chunk)
    and not exists (select from holdfast.audit_unsealed u where u.chunk = a.chunk)
order by a.chunk, a.place
limit %(limit)s;


-- name: verify_prunes
-- Prunes whose kept hashes are not the ones that their entry was sealed with, or that no entry tells of.
select p.batch_id::text
from (
    select p.batch_id, encode(sha256(string_agg(int8send(p.chunk) || int4send(p.place) || p.hash, ''::bytea order by p.chunk, p.place)), 'hex') as digest
    from holdfast.audit_pruned p
    group by p.batch_id
) p
where not exists (
    select from holdfast.audit_log a
    where a.batch_id = p.batch_id and a.action = 'TASK_AUDIT_PRUNE_SUMMARY' and a.details ->> 'digest' = p.digest
)
limit %(limit)s;


-- name: verified
-- What a verification covered, and the head of the chain to be noted elsewhere.
select
    (select count(*) from holdfast.audit_log), (select count(*) from holdfast.audit_pruned), (select count(*) from holdfast.audit_unsealed),
    s.number, encode(s.hash, 'hex')
from (select 1) one
left join lateral (select n.number, n.hash from holdfast.audit_seals n order by n.number desc limit 1) s on true;


-- name: seal_hash
select encode(s.hash, 'hex') from holdfast.audit_seals s where s.number = %(number)s;
