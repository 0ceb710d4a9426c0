-- Corrections after a step of the database's clock. Without them, work would wait (clock set back) or start all at once
-- (clock set forward).

-- name: bring_back
-- After the clock was set back: times of past events that are now in the future. Turns become due now, rates keep at most
-- their burst, sweeps and ramps restart. Rows that are locked by others are skipped, and corrected by the next call. Returns
-- the number of corrected rows.
with clock as materialized (
    select clock_timestamp() as now, (extract(epoch from clock_timestamp()) * 1000000)::bigint as turn
), turned as (
    update holdfast.turns t
    set turn = c.turn
    from clock c
    where t.ctid = any (array(select o.ctid from holdfast.turns o, clock c where o.turn > c.turn for update of o skip locked))
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
    set resumed_at = least(b.resumed_at, c.now), parked_at = least(b.parked_at, c.now)
    from clock c
    where b.ctid = any (array(
        select o.ctid from holdfast.buckets o, clock c where o.resumed_at > c.now or o.parked_at > c.now for update of o skip locked
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
