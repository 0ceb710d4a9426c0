-- Who holds the locks that our statements wait for; nothing here writes or takes a lock of a table.

-- name: blockers
-- The sessions that block these connections: transaction, user, age (as far as this role may see them), their own blockers,
-- what they lock and who waits for it. Connections that wait themselves are left out; pid 0 is a prepared transaction.
-- A wait that has just begun delays nobody yet: when a lock ends, those who waited for it wait shortly for one another.
with locks as materialized (
    select l.pid, l.locktype, l.relation, l.granted, l.virtualtransaction, l.waitstart from pg_locks l
), waiting as materialized (
    select a.pid, a.application_name, case
        when l.locktype = 'relation' then l.relation::regclass::text
        -- Whoever waits for the transaction that changed a row holds or wants the lock of that row.
        else coalesce(
            (select 'a row of ' || t.relation::regclass::text from locks t where t.pid = a.pid and t.locktype = 'tuple' limit 1),
            l.locktype
        )
    end as locked
    from pg_stat_activity a
    join locks l on l.pid = a.pid and not l.granted and l.waitstart < clock_timestamp() - interval '0.2 s'
    where a.datname = current_database() and a.application_name = any (%(applications)s::text[])
)
select
    b.pid,
    (select max(l.virtualtransaction) from locks l where coalesce(l.pid, 0) = b.pid),
    a.application_name, a.usename::text, a.state,
    extract(epoch from clock_timestamp() - a.xact_start)::double precision,
    pg_blocking_pids(b.pid),
    array_agg(distinct w.locked), array_agg(distinct w.application_name)
from waiting w
cross join lateral unnest(pg_blocking_pids(w.pid)) as b (pid)
left join pg_stat_activity a on a.pid = b.pid
where b.pid not in (select o.pid from waiting o)
group by b.pid, a.application_name, a.usename, a.state, a.xact_start
order by count(*) desc;


-- name: open_transactions
-- Which of these transactions hold locks still, and so have not ended.
select distinct v.pid, v.transaction
from unnest(%(pids)s::integer[], %(transactions)s::text[]) as v (pid, transaction)
join pg_locks l on coalesce(l.pid, 0) = v.pid and l.virtualtransaction = v.transaction;


-- name: abandoned_waits
-- Whether a backend that this connection's predecessor left behind waits for a lock. Behind a pooler nobody knows its
-- pid, so the name that the application gives counts, and those who share it are taken for one.
select exists (
    select from pg_stat_activity a
    where a.datname = current_database() and a.application_name = current_setting('application_name')
        and a.wait_event_type = 'Lock' and a.pid <> pg_backend_pid()
);
