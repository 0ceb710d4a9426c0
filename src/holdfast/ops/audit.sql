-- Pages and counts of the audit, and what `holdfast audit verify` compares. What writes it stands in audit.sql.


-- shared: entries_looked_at
-- The newest entries, or those of a task or a batch; so many at most, where that is asked for.
select a.* from holdfast.audit_log a
    where (%(batch)s::uuid is null or a.batch_id = %(batch)s::uuid)
        and (%(task)s::uuid is null or a.task_id = %(task)s::uuid)
        and (%(before_chunk)s::bigint is null or (a.chunk, a.place) < (%(before_chunk)s::bigint, %(before_place)s::integer))
    order by a.chunk desc, a.place desc
    limit %(look)s


-- name: entries
-- A page of entries, the newest first.
select
    a.chunk, a.place, a.at, a.action, a.actor, a.reason, a.batch_id::text, a.task_id::text, a.kind, a.subject, a.trace_id, a.details::text,
    a.login, a.token, a.address
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


-- name: verify_unsealed
-- Chunks that wait to be sealed and cannot be, or wait for longer than any worker takes.
select
    u.chunk,
    case when s.chunk is not null then 'it is sealed already' when e.since is null then 'it has no entries' else 'nobody has sealed it since ' || e.since end
from holdfast.audit_unsealed u
left join holdfast.audit_seals s on s.chunk = u.chunk
cross join lateral (select min(a.at) as since from holdfast.audit_log a where a.chunk = u.chunk) e
where s.chunk is not null or e.since is null or e.since < now() - interval '10 minutes'
order by u.chunk
limit %(limit)s;


-- name: verify_sequence
-- Whether the number of the next chunk is one that was used, or there are hardly any left.
select n.last, n.used
from (
    select coalesce(pg_sequence_last_value('holdfast.audit_chunk'::regclass), 0) as last,
        greatest((select max(a.chunk) from holdfast.audit_log a), (select max(s.chunk) from holdfast.audit_seals s), 0) as used
) n
where n.last < n.used or n.last > 9000000000000000000;


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
-- Compared with a hash that was noted outside the database, to detect a chain that was rewritten as a whole.
select encode(s.hash, 'hex') from holdfast.audit_seals s where s.number = %(number)s;
