-- What ended when: deltas written by settling groups, rolled up by the minute.

-- name: prune_minutes
delete from holdfast.settled_minutes m
where m.minute < coalesce(%(now)s::timestamptz, now()) - make_interval(days => %(days)s::integer);


-- name: roll_up
-- Takes the deltas of closed minutes and adds them to the minutes; safe to run by several at once.
with taken as (
    delete from holdfast.settled_deltas d
    where d.ctid = any (array(
        select c.ctid
        from holdfast.settled_deltas c
        where c.settled_at < date_trunc('minute', coalesce(%(now)s::timestamptz, now()))
        limit %(limit)s
        for update skip locked
    ))
    returning d.*
), sums as (
    select date_trunc('minute', t.settled_at) as minute, t.kind, t.ended_as, sum(t.tasks) as tasks, sum(t.run_seconds) as run_seconds
    from taken t
    group by 1, 2, 3
    order by 1, 2, 3
), added as (
    insert into holdfast.settled_minutes as m (minute, kind, ended_as, tasks, run_seconds)
    select s.minute, s.kind, s.ended_as, s.tasks, s.run_seconds from sums s
    on conflict (minute, kind, ended_as) do update
    set tasks = m.tasks + excluded.tasks, run_seconds = m.run_seconds + excluded.run_seconds
)
select count(*)::integer from taken;
