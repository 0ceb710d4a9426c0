-- name: pending
-- What maintenance has to do soon, in one look: whether tasks wait for others to end, whether the audit has something to
-- seal, which plans nobody drives, in how many seconds the next lease of a worker ends, whether anybody holds tasks or permits
-- (where it is asked for), whether tasks are blocked or kinds have a row in buckets, and whether the time of a task or of
-- a pause is over.
select
    exists (select from holdfast.followups f where f.released_at is null),
    exists (select from holdfast.audit_unsealed u),
    array(
        select p.id::text
        from holdfast.plans p
        where (p.state = 'running' or p.started_at is not null and p.followed_at is null)
            and not exists (
                select from holdfast.tasks t
                where t.subject = p.id::text and t.queue = 'holdfast' and (t.mark is null or t.mark = 'paused')
            )
    ),
    (select extract(epoch from min(w.lease_expires_at) - now())::double precision from holdfast.workers w where w.lost_at is null),
    case when %(held)s then
        -- The latest is the likeliest to be there: beside an old snapshot those before it may all be dead.
        (select true from holdfast.running r order by r.id desc limit 1) is not null
        or exists (select from holdfast.permits s)
    end,
    (select true from holdfast.blocked w order by w.id desc limit 1) is not null or exists (select from holdfast.buckets b where b.kind is not null),
    exists (
        select from holdfast.tasks t
        where t.expires_at <= now() and t.expires_at is not null and t.mark is distinct from 'failed' and t.mark is distinct from 'cancelled'
            and not exists (select from holdfast.running r where r.id = t.id)
    )
    or exists (select from holdfast.buckets b where b.paused_until <= now())
    or exists (select from holdfast.queues q where q.paused_until <= now() or q.resumed_at < now() - interval '10 s' and q.paused_at is null);
