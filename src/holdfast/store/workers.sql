-- The rows of workers: their leases, what they hold, and who maintains the installation.


-- name: register_worker
-- The release is noted in the same statement, so that failures can be compared with when it first ran.
with known as (
    insert into holdfast.releases (release, first_seen_at) select %(release)s, now() where %(release)s::text is not null
    on conflict do nothing
)
insert into holdfast.workers (id, name, lease_expires_at, lease_seconds, queues, kinds, release)
values (
    %(worker)s::uuid, %(name)s, now() + make_interval(secs => %(lease)s::double precision), %(lease)s,
    %(queues)s::text[], %(kinds)s::text[], %(release)s
);


-- name: renew
-- One statement per supervisor and interval, whatever its executors hold; a worker declared lost stays
-- lost. One whose lease has ended and that nobody has declared lost still has all that it held: the clock may have
-- been put forward.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => %(lease)s::double precision)
where w.id = any (%(workers)s::uuid[]) and w.lost_at is null
returning w.id::text;


-- name: held
-- What stands in running under a worker's name, as `lapsed` shows it; without a kind where the facts were deleted.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, false as overdue
    from holdfast.running r
    where r.worker = %(worker)s::uuid
)
select {as_lapsed}, false as sole, t.failure_class is not distinct from 'worker_lost' as lost_before
from found f left join {tasks_found} on true;


-- name: lapsed
-- The claims of lost or unknown workers, and those past deadline and grace (which a step forward of the clock prolongs), with
-- the facts that `decide` needs. The fence makes the verdict safe, so nothing is locked here. Claims of deleted tasks are
-- included, with a null kind: if they were skipped, they would use up the limit at every call.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, w.id is not null as known, w.lost_at is null and w.id is not null as overdue
    from holdfast.running r
    left join holdfast.workers w on w.id = r.worker
    where w.id is null
        or w.lost_at is not null
        or r.deadline_at < now() - make_interval(secs => %(grace)s::double precision)
            - case when r.started_at <= %(before)s::timestamptz then make_interval(secs => %(forward)s::double precision) else interval '0' end
    -- All that a worker held at once: the last of them did not run alone because the others were taken back before it.
    order by r.worker
    fetch first %(limit)s rows with ties
), holding as materialized (
    -- In one pass: running has no order but that of its ids.
    select r.worker, count(*) as held from holdfast.running r where r.worker in (select f.worker from found f) group by r.worker
)
select
    {as_lapsed},
    -- Of a worker that is not known nothing is known: null.
    case when f.known then h.held = 1 end as sole,
    t.failure_class is not distinct from 'worker_lost' as lost_before
from found f
join holding h on h.worker = f.worker
left join {tasks_found} on true;


-- name: lose_workers
-- A worker whose lease has ended is declared lost before anything is taken from it.
with lost as (
    update holdfast.workers w
    set lost_at = now()
    where w.lost_at is null and w.lease_expires_at <= now()
    returning w.id
), freed as (
    -- Its permits come back with its lease; so do those that a lost or forgotten worker took in its last moment.
    -- Whoever renews at this moment is not among the lost.
    delete from holdfast.permits s
    where s.worker in (select l.id from lost l)
        or not exists (select from holdfast.workers w where w.id = s.worker and w.lost_at is null)
    returning s.bucket
)
select
    (select coalesce(array_agg(l.id::text), '{}') from lost l),
    (select coalesce(array_agg(distinct f.bucket), '{}') from freed f);


-- name: retire_worker
-- Gone on purpose, or lost and with nothing left in its name.
with freed as (
    delete from holdfast.permits s where s.worker = %(worker)s::uuid returning s.bucket
), gone as (
    delete from holdfast.workers w
    where w.id = %(worker)s::uuid
        and not exists (select from holdfast.running r where r.worker = w.id)
    returning w.id
)
select exists (select from gone), (select coalesce(array_agg(f.bucket), '{}') from freed f);


-- name: prune_workers
-- Lost workers of which nothing is left, after people had a day to see them.
delete from holdfast.workers w
where w.lost_at < now() - interval '1 day'
    and not exists (select from holdfast.running r where r.worker = w.id)
returning w.id::text;


-- name: cancel_requests
-- What a worker was asked to stop.
select q.task_id::text, q.fence, q.reason
from holdfast.cancel_requests q
join holdfast.running r on r.id = q.task_id and r.fence = q.fence
where r.worker = %(worker)s::uuid;


-- name: prune_cancel_requests
-- Requests whose claim has ended, however it ended.
delete from holdfast.cancel_requests q
where not exists (
    select from holdfast.running r
    where r.id = q.task_id and r.fence = q.fence
)
returning q.task_id::text;


-- name: take_maintenance
-- The lease on the chores: renewed by its holder, taken by another once it has ended. Answers whether it
-- is the caller's, and for how long it holds. A lease that ends later than lease_seconds from now was taken before the clock
-- was set back, and may be replaced.
with taken as (
    insert into holdfast.maintenance as m (name, holder, expires_at, lease_seconds)
    values ('maintenance', %(holder)s::uuid, now() + make_interval(secs => %(lease)s::double precision), %(lease)s)
    on conflict (name) do update
    set holder = excluded.holder, expires_at = excluded.expires_at, lease_seconds = excluded.lease_seconds
    where m.holder = excluded.holder or m.expires_at <= now() or m.expires_at > now() + make_interval(secs => m.lease_seconds + 1)
    returning m.expires_at
)
select true, extract(epoch from t.expires_at - now())::double precision from taken t
union all
select false, greatest(0, extract(epoch from m.expires_at - now()))::double precision
from holdfast.maintenance m
where not exists (select from taken);


-- name: leave_maintenance
-- Gives the lease up at once when its holder leaves, so that no other worker waits for it to expire.
delete from holdfast.maintenance m
where m.holder = %(holder)s::uuid;
