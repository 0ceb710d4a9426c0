-- name: pending
-- What maintenance has to do soon, in one look: in how many seconds the next tick of a schedule comes, whether
-- tasks wait for others to end, whether the audit has something to seal, and which plans nobody drives.
select
    (select extract(epoch from min(s.next_at) - %(now)s)::double precision from holdfast.schedules s where s.paused_at is null),
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
    );
