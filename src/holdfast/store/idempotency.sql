-- Answers of the HTTP API, kept by `Idempotency-Key`.


-- name: ask
-- Whoever asks first with a key holds it until the commit; another with the same key waits for that.
insert into holdfast.api_answers (actor, key, asked, answered_at)
values (%(actor)s::text, %(key)s::text, %(asked)s::bytea, now())
on conflict (actor, key) do nothing
returning true;


-- name: answered
-- A repeated request gets the answer of the first one. What was asked is compared, so a key cannot be used for two
-- things.
select a.asked, a.status, a.media_type, a.body from holdfast.api_answers a
where a.actor = %(actor)s::text and a.key = %(key)s::text;


-- name: answer
-- Filled in when the request has ended; until then the row only keeps a second request with its key out.
update holdfast.api_answers a
set status = %(status)s, media_type = %(media_type)s, body = %(body)s
where a.actor = %(actor)s::text and a.key = %(key)s::text;


-- name: prune_answers
-- In batches, the oldest first, so that a busy API never deletes millions of rows in one transaction.
with gone as (
    delete from holdfast.api_answers a
    where (a.actor, a.key) in (
        select o.actor, o.key from holdfast.api_answers o
        where o.answered_at < now() - make_interval(hours => %(hours)s::integer)
        order by o.answered_at
        limit %(limit)s
    )
    returning 1
)
select count(*) from gone;


-- name: prune_sessions
-- Expired sessions are refused anyway; this only keeps the table small.
delete from holdfast.api_sessions s where s.expires_at < now();
