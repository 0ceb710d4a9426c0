-- The rows of workers that speak HTTP.


-- name: live_outside
-- How many workers of a token are alive.
select count(*) from holdfast.workers w where w.token = %(token)s and w.lost_at is null and w.lease_expires_at > now();


-- name: register_outside
-- A worker in another language: its row is that of any worker, and it works in the name of a token.
insert into holdfast.workers (id, name, lease_expires_at, queues, kinds, token, lease_seconds)
values (
    %(worker)s::uuid, %(name)s, now() + make_interval(secs => %(lease)s::double precision),
    %(queues)s::text[], %(kinds)s::text[], %(token)s, %(lease)s
)
returning lease_expires_at;


-- name: renew_outside
-- Renews, and lets whoever else speaks for the same worker wait: what it holds is counted by one at a time.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => w.lease_seconds::double precision)
where w.id = %(worker)s::uuid and w.token = %(token)s and w.lost_at is null
returning w.lease_expires_at, w.queues, w.kinds;


-- name: lock_outside
-- A report needs no lease, as no settle does: the fence decides.
select w.id from holdfast.workers w where w.id = %(worker)s::uuid and w.token = %(token)s for update;


-- name: held_task
-- The same of one task, which nobody takes back until this transaction ends.
with found as materialized (
    select r.id, r.fence, r.started_at, r.worker, false as overdue
    from holdfast.running r
    where r.id = %(task)s::uuid and r.fence = %(fence)s and r.worker = %(worker)s::uuid
    for update
)
select {as_lapsed}, false as sole, false as lost_before from found f cross join {tasks_found};


-- name: may_be_late
-- Whether a worker has held a task under this fence, and no late result of it is on record.
select
    (
        exists (
            select from holdfast.task_attempts a
            where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid
        )
        or exists (
            select from holdfast.task_history h
            where h.id = %(task)s::uuid and h.fence = %(fence)s and h.worker = %(worker)s::uuid
        )
    )
    and not exists (
        select from holdfast.task_attempts a
        where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid and a.ended_as = 'late'
    );


-- name: ended_as
-- How a claim ended, if it did in one of these ways.
select 'complete' as ended_as from holdfast.task_history h
where h.id = %(task)s::uuid and h.fence = %(fence)s and h.worker = %(worker)s::uuid and 'complete' = any (%(moves)s::text[])
union all
select a.ended_as from holdfast.task_attempts a
where a.task_id = %(task)s::uuid and a.fence = %(fence)s and a.worker = %(worker)s::uuid and a.ended_as = any (%(moves)s::text[]);
