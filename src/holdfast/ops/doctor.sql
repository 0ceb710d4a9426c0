-- Questions about the server and the schema; nothing here writes.

-- name: server
-- Read in one statement, so that what is compared with each other was true at one moment.
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


-- name: login
-- Who is connected, whether the tables are theirs, and which of the roles of `holdfast migrate --grants` they have.
select
    session_user,
    exists (
        select from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = %(schema)s and c.relname = 'tasks' and pg_has_role(session_user, c.relowner, 'member')
    ),
    array(
        select r.rolname::text from pg_roles r
        where r.rolname in ('holdfast_enqueuer', 'holdfast_worker', 'holdfast_api', 'holdfast_operator') and pg_has_role(session_user, r.oid, 'member')
        order by r.rolname
    );


-- name: api_logins
-- Logins of API processes whose tokens the database does not believe: see the function proven_identity.
select distinct a.usename::text
from pg_stat_activity a
where a.datname = current_database()
    and a.application_name = 'holdfast api'
    and not pg_has_role(a.usesysid, (select c.relowner from pg_class c where c.oid = 'holdfast.tasks'::regclass), 'member')
    and not exists (select from pg_roles r where r.rolname = 'holdfast_api' and pg_has_role(a.usesysid, r.oid, 'member'))
order by 1;


-- name: tokens_of_one_name
-- Such tokens date from before names had to be unique; the audit cannot tell them apart by name.
select t.name, count(*) from holdfast.api_tokens t
where t.revoked_at is null
group by t.name
having count(*) > 1
order by t.name
limit 5;


-- name: disabled_triggers
-- Without them somebody may write what the audit and the bounds refuse. Only the schema's owner can turn one off.
select c.relname::text || '.' || t.tgname::text
from pg_trigger t
join pg_class c on c.oid = t.tgrelid
where c.relnamespace = 'holdfast'::regnamespace and not c.relispartition and not t.tgisinternal and t.tgenabled in ('D', 'R')
order by 1;


-- name: stuck
-- Leases that ended and that nobody has taken notice of, and tasks of workers that are not known.
select
    (select count(*) from holdfast.workers w where w.lost_at is null and w.lease_expires_at < now() - interval '10 s'),
    (select count(*) from holdfast.running r where not exists (select from holdfast.workers w where w.id = r.worker)),
    (select count(*) from holdfast.buckets b where b.unserved_at is not null),
    (select m.expires_at > now() from holdfast.maintenance m limit 1);


-- name: misplaced
-- Tasks whose row in ready, blocked or running is missing, is not the only one, or differs from what they say, and such rows
-- of tasks that are gone. One statement sees one moment, so a task that moves meanwhile is not among them. Full joins,
-- because they leave a planner with old statistics no way but one pass over each table.
select
    coalesce(t.id, r.id, w.id, u.id)::text,
    case
        when t.id is null then 'no_task'
        when t.mark is not null then 'marked'
        when num_nonnulls(r.id, w.id, u.id) = 0 then 'no_row'
        when num_nonnulls(r.id, w.id, u.id) > 1 then 'several'
        else 'different'
    end
from holdfast.tasks t
full join holdfast.ready r on r.id = t.id
full join holdfast.blocked w on w.id = coalesce(t.id, r.id)
full join holdfast.running u on u.id = coalesce(t.id, r.id, w.id)
where t.id is null
    or num_nonnulls(r.id, w.id, u.id) <> case when t.mark is null then 1 else 0 end
    or r.id is not null and (r.queue, r.priority, r.run_at) is distinct from (t.queue, t.priority, t.run_at)
limit %(limit)s;


-- name: in_one_pass
-- For the length of a transaction: tables are read whole, once each, and a statement ends after so many milliseconds, if any.
select
    set_config('enable_seqscan', 'on', true), set_config('enable_nestloop', 'off', true), set_config('work_mem', '64MB', true),
    case when %(milliseconds)s::integer > 0 then set_config('statement_timeout', %(milliseconds)s::text, true) end;
