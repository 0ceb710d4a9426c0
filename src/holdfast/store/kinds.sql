-- What workers declare of their kinds. Claims read none of it.

-- name: declare_kinds
-- All kinds of one worker. One whose row says the same already writes nothing, except once an hour. Secret fields are only
-- added to a row: workers without a release share it, and one that knows fewer fields must not show what another hides.
insert into holdfast.kinds as k (kind, release, queue, secrets, guarded, payload_hash, declared_at)
select d.kind, %(release)s, d.queue, d.secrets, d.guarded, d.payload_hash, now()
from jsonb_to_recordset(%(kinds)s::jsonb) as d (kind text, queue text, secrets text[], guarded boolean, payload_hash text)
left join holdfast.kinds o on o.kind = d.kind and o.release = %(release)s
where o.kind is null
    or o.declared_at < now() - interval '1 hour'
    or not d.secrets <@ o.secrets
    or '*' = any (o.secrets)
    or (d.queue, d.guarded, d.payload_hash) is distinct from (o.queue, o.guarded, o.payload_hash)
order by d.kind
on conflict (kind, release) do update
set queue = excluded.queue, guarded = excluded.guarded, payload_hash = excluded.payload_hash, declared_at = excluded.declared_at,
    secrets = array(select distinct f.field from unnest(k.secrets || excluded.secrets) f (field) where f.field <> '*' order by 1);


-- name: declare_secrets
-- The same for a worker in another language, which knows no more of a kind than its secret fields. A row with the field *
-- has people see no values: whoever declared it may not decide that. It is such until somebody who may declares the kind.
insert into holdfast.kinds as k (kind, release, queue, secrets)
select d.kind, '', %(queue)s, d.secrets
from jsonb_to_recordset(%(kinds)s::jsonb) as d (kind text, secrets text[])
left join holdfast.kinds o on o.kind = d.kind and o.release = ''
where o.kind is null or o.declared_at < now() - interval '1 hour' or not d.secrets <@ o.secrets
    or '*' = any (o.secrets) and not '*' = any (d.secrets)
order by d.kind
on conflict (kind, release) do update
set declared_at = now(), secrets = array(
    select distinct f.field from unnest(k.secrets || excluded.secrets) f (field)
    where f.field <> '*' or '*' = any (excluded.secrets)
    order by 1
);


-- name: count_outside_kinds
-- HTTP workers may declare any name as a kind, so the number of these rows needs a limit.
select count(*) from holdfast.kinds k where k.release = '' and k.payload_hash is null;


-- name: secrets_of
-- The secret fields of kinds, those of all their releases together. A kind that nobody has declared has no row.
select
    k.kind, coalesce(array_agg(distinct f.field) filter (where f.field <> '*'), '{}'),
    bool_or(not '*' = any (k.secrets)) as declared
from holdfast.kinds k
left join unnest(k.secrets) f (field) on true
where k.kind = any (%(kinds)s::text[])
group by k.kind;


-- name: kinds_unused
-- Kinds with rows that nobody has declared for so long, whose tasks are not to be found by an index: none is marked, is
-- blocked or runs, and no live worker serves the kind.
select distinct k.kind
from holdfast.kinds k
where k.declared_at < now() - make_interval(days => %(days)s::integer)
    and not exists (select from holdfast.workers w where w.lost_at is null and k.kind = any (w.kinds))
    and not exists (select from holdfast.tasks t where t.kind = k.kind and t.mark is not null)
    and not exists (select from holdfast.blocked w where w.kind = k.kind)
    and not exists (
        select from holdfast.running r
        cross join lateral (select c.kind from holdfast.tasks c where c.id = r.id offset 0) t
        where t.kind = k.kind
    );


-- name: kinds_ready
-- Which of these kinds have tasks in ready, which has no index by kind: it would cost every enqueue.
select distinct r.kind from holdfast.ready r where r.kind = any (%(kinds)s::text[]);


-- name: prune_kinds
-- Rows of kinds that are not used any more, and rows of old releases whose secret fields a newer row of the kind has too.
with gone as (
    delete from holdfast.kinds k
    where k.declared_at < now() - make_interval(days => %(days)s::integer)
        and (
            k.kind = any (%(kinds)s::text[])
            or exists (
                select from holdfast.kinds n
                where n.kind = k.kind and n.declared_at > k.declared_at and k.secrets <@ n.secrets
            )
        )
    returning 1
)
select count(*)::integer from gone;
