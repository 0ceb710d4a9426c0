-- Questions about the server and the schema; nothing here writes.

-- name: server
select
    current_setting('server_version_num')::integer, current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('full_page_writes'), current_setting('autovacuum'), current_setting('track_counts'),
    current_setting('idle_in_transaction_session_timeout'), current_setting('max_connections')::integer,
    (select count(*) from pg_stat_activity where backend_type = 'client backend'),
    clock_timestamp(), pg_is_in_recovery();


-- name: oldest_snapshot
-- The oldest transaction of anyone: as long as it is open, nothing that died since can be removed.
select a.pid, a.usename, a.application_name, a.state, extract(epoch from now() - a.xact_start)::double precision
from pg_stat_activity a
where a.xact_start is not null and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
order by a.xact_start
limit 1;


-- name: partitions
-- How many days ahead there is a place for what ends.
select count(*)
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'holdfast.task_history'::regclass
    and right(c.relname, 8) >= to_char(now() at time zone 'utc', 'YYYYMMDD');


-- name: rights
select
    (select has_schema_privilege(c.relnamespace, 'usage') from pg_class c where c.oid = 'holdfast.tasks'::regclass),
    coalesce((
        select bool_and(has_table_privilege(quote_ident(t.schemaname) || '.' || quote_ident(t.tablename), 'select, insert, update, delete'))
        from pg_tables t
        where t.schemaname = (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = 'holdfast.tasks'::regclass)
            and t.tablename in ('tasks', 'ready', 'waiting', 'running', 'workers')
    ), false) and has_table_privilege('holdfast.releases', 'insert') and has_table_privilege('holdfast.queue_minutes', 'insert, delete');


-- name: stuck
-- Leases that ended and that nobody has taken notice of, and tasks of workers that are not known.
select
    (select count(*) from holdfast.workers w where w.lost_at is null and w.lease_expires_at < now() - interval '10 s'),
    (select count(*) from holdfast.running r where not exists (select from holdfast.workers w where w.id = r.worker)),
    (select count(*) from holdfast.buckets b where b.parked_at is not null),
    (select m.expires_at from holdfast.maintenance m limit 1);
