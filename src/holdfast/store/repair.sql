-- Restores the one narrow row of a live task.


-- name: lock_tasks
-- Held until the caller commits, so that two who repair the same tasks do it one after the other.
select from holdfast.tasks t where t.id = any (%(ids)s::uuid[]) order by t.id for update;


-- name: remove_rows
-- Deletes the rows of these tasks in ready, blocked and running that should not be there: all of a task that is marked or
-- deleted, a row in ready that differs from tasks, and, of several rows, all except the one in running, else blocked. Rows
-- that are locked by others are skipped.
with wanted as materialized (
    select u.id, t.id is null or t.mark is not null as unwanted, t.queue, t.priority, t.run_at
    from unnest(%(ids)s::uuid[]) as u (id)
    left join holdfast.tasks t on t.id = u.id
), from_ready as (
    delete from holdfast.ready r
    where r.ctid = any (array(
        select c.ctid
        from holdfast.ready c
        join wanted n on n.id = c.id
        where n.unwanted or (c.queue, c.priority, c.run_at) is distinct from (n.queue, n.priority, n.run_at)
            or exists (select from holdfast.blocked o where o.id = c.id)
            or exists (select from holdfast.running o where o.id = c.id)
        for update of c skip locked
    ))
    returning r.id
), from_waiting as (
    delete from holdfast.blocked w
    where w.ctid = any (array(
        select c.ctid
        from holdfast.blocked c
        join wanted n on n.id = c.id
        where n.unwanted or exists (select from holdfast.running o where o.id = c.id)
        for update of c skip locked
    ))
    returning w.id
), from_running as (
    delete from holdfast.running u
    where u.ctid = any (array(
        select c.ctid from holdfast.running c join wanted n on n.id = c.id where n.unwanted for update of c skip locked
    ))
    returning u.id
)
select id::text from from_ready union select id::text from from_waiting union select id::text from from_running;


-- name: restore
-- Live tasks without a row in ready, blocked or running go back to ready, as they stand in tasks: what comes after others
-- still stands behind them. The caller holds their rows, and this is a statement of its own, so that it sees what was written before.
with xid as materialized (
    select pg_current_xact_id() as number
), there as materialized (
    select r.id from holdfast.ready r join unnest(%(ids)s::uuid[]) as u (id) on u.id = r.id
    union all
    select w.id from holdfast.blocked w where w.id = any (%(ids)s::uuid[])
    union all
    select x.id from holdfast.running x where x.id = any (%(ids)s::uuid[])
), changed as (
    update holdfast.tasks t
    set run_at = greatest(t.run_at, clock_timestamp())
    from xid
    where xid.number is not null and t.id = any (%(ids)s::uuid[]) and t.mark is null
        and not exists (select from there h where h.id = t.id)
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position from changed c
)
select id::text from changed;
