-- Corrections after a step of the database's clock. Without them, work would wait (clock set back) or start all at once
-- (clock set forward).

-- name: bring_back
-- After the clock was set back: times of past events that are now in the future. Turns become due now, rates keep at most
-- their burst, sweeps and ramps restart. Rows that are locked by others are skipped, and corrected by the next call. Returns
-- the number of corrected rows.
with clock as materialized (
    select clock_timestamp() as now, (extract(epoch from clock_timestamp()) * 1000000)::bigint as turn
), turned as (
    update holdfast.line t
    set turn = c.turn
    from clock c
    where t.ctid = any (array(select o.ctid from holdfast.line o, clock c where o.turn > c.turn for update of o skip locked))
    returning t.queue
), rated as (
    update holdfast.rates r
    set spent_until = x.most
    from (
        select o.ctid as place, m.most
        from holdfast.rates o
        cross join clock c
        join holdfast.buckets l on l.name = coalesce(
            (select b.name from holdfast.buckets b where b.name = o.bucket), split_part(o.bucket, '=', 1) || '=*'
        )
        cross join lateral (select c.now + make_interval(secs => l.rate_ahead * l.rate_seconds / l.rate_count) as most) m
        where l.rate_count is not null and o.spent_until > m.most
        for update of o skip locked
    ) x
    where r.ctid = x.place
    returning r.bucket
), walked as (
    update holdfast.sweeps w
    set due_at = c.now
    from clock c
    where w.ctid = any (array(select o.ctid from holdfast.sweeps o, clock c where o.due_at > c.now for update of o skip locked))
    returning w.queue
), doors as (
    update holdfast.buckets b
    set resumed_at = least(b.resumed_at, c.now), unserved_at = least(b.unserved_at, c.now)
    from clock c
    where b.ctid = any (array(
        select o.ctid from holdfast.buckets o, clock c where o.resumed_at > c.now or o.unserved_at > c.now for update of o skip locked
    ))
    returning b.name
), queues as (
    update holdfast.queues q
    set resumed_at = c.now
    from clock c
    where q.ctid = any (array(select o.ctid from holdfast.queues o, clock c where o.resumed_at > c.now for update of o skip locked))
    returning q.name
), ramps as (
    update holdfast.plans p
    set ramp_from = c.now, ramp_sent = 0
    from clock c
    where p.ctid = any (array(
        select o.ctid from holdfast.plans o, clock c where o.state = 'running' and o.ramp_from > c.now for update of o skip locked
    ))
    returning p.id
), samples as (
    update holdfast.samples s set sampled_at = c.now from clock c where s.sampled_at > c.now returning s.name
)
select
    (select count(*) from turned) + (select count(*) from rated) + (select count(*) from walked) + (select count(*) from doors)
        + (select count(*) from queues) + (select count(*) from ramps) + (select count(*) from samples),
    (select count(holdfast.hint(q.queue)::text) from (select distinct t.queue from turned t) q);


-- name: begin_ramps
-- The number of items that a plan may send grows with time, so after a step forward it would send all of them at once.
update holdfast.plans p
set ramp_from = clock_timestamp(), ramp_sent = 0
where p.state = 'running' and p.ramp_from is not null
returning p.id;


-- name: still_due
-- After the clock was set back: tasks that were due stay due, and retries keep at most their original delay. Tasks that
-- were enqueued since then keep their time. Returns how many were moved.
with ahead as materialized (
    select r.ctid as place, t.last_attempt_at
    from holdfast.ready r
    cross join lateral (select c.enqueued_at, c.last_attempt_at from holdfast.tasks c where c.id = r.id offset 0) t
    where r.run_at > now() and r.run_at <= %(before)s::timestamptz + interval '1 hour'
        and (
            t.last_attempt_at > now()
            or r.run_at <= %(before)s::timestamptz and (t.enqueued_at > now() or t.enqueued_at < %(after)s::timestamptz)
        )
    order by r.run_at
    limit %(limit)s
    for update of r skip locked
), taken as (
    delete from holdfast.ready r
    using ahead a
    where r.ctid = a.place
    returning r.id
), changed as (
    update holdfast.tasks t
    set run_at = clock_timestamp() + case when t.run_at <= %(before)s::timestamptz then interval '0' else t.run_at - t.last_attempt_at end
    from taken k
    where t.id = k.id
    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position
), back as (
    insert into holdfast.ready (run_at, id, timeout_seconds, priority, queue, kind, bucket, position)
    select c.run_at, c.id, c.timeout_seconds, c.priority, c.queue, c.kind, c.bucket, c.position
    from changed c
)
select (select count(*) from changed), (select count(holdfast.hint(q.queue)::text) from (select distinct c.queue from changed c) q);


-- name: adjust_leases
-- After a step of the clock: restart leases that the step ended, and those that last longer than lease_seconds. Live workers
-- renew; dead ones are declared lost one lease later.
update holdfast.workers w
set lease_expires_at = now() + make_interval(secs => coalesce(w.lease_seconds, %(lease)s))
where w.lost_at is null
    and (
        w.lease_expires_at <= now() and w.lease_expires_at > now() - make_interval(secs => %(forward)s::double precision)
        or w.lease_expires_at > now() + make_interval(secs => w.lease_seconds + 1)
    )
returning w.id::text;
