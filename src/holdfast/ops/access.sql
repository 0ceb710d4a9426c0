-- Tokens and sessions of the HTTP API.


-- name: lock_tokens
-- Until the commit nobody else makes a token. An advisory lock could be held by any login.
lock table holdfast.api_tokens in share row exclusive mode;


-- name: token_named
-- Names of valid tokens are unique, because people and the audit refer to a token by its name.
select t.id from holdfast.api_tokens t where t.name = %(name)s::text and t.revoked_at is null limit 1;


-- name: create_token
-- Only a hash of the secret is stored. The moment of expiry is set by the clock of the database, which also judges
-- it.
insert into holdfast.api_tokens (id, name, role, secret_hash, created_at, created_by, expires_at, queues, kinds)
values (
    %(id)s::text, %(name)s::text, %(role)s::text, %(hash)s::bytea, now(), %(by)s::text,
    now() + make_interval(secs => %(expires_seconds)s::double precision), %(queues)s::text[], %(kinds)s::text[]
)
returning created_at, expires_at;


-- name: tokens
-- Valid tokens come first: revoked ones are kept for the audit and would push them off the page.
select t.id, t.name, t.role, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at, t.revoked_by, t.queues, t.kinds
from holdfast.api_tokens t
order by t.revoked_at is not null, t.created_at desc
limit %(limit)s;


-- name: token
-- What is known of a token, whose secret must still be compared.
select t.name, t.role, t.secret_hash, t.expires_at <= now() as expired, t.revoked_at is not null as revoked, t.queues, t.kinds
from holdfast.api_tokens t
where t.id = %(id)s::text;


-- name: token_used
-- At most once a minute for each token.
update holdfast.api_tokens t
set last_used_at = now()
where t.id = %(id)s::text and (t.last_used_at is null or t.last_used_at < now() - interval '1 minute');


-- name: revoke_token
-- The row is kept: entries of the audit refer to it. A token is revoked once, so the first moment and name stay.
update holdfast.api_tokens t
set revoked_at = now(), revoked_by = %(by)s::text
where t.id = %(id)s::text and t.revoked_at is null
returning t.name;


-- name: begin_session
-- Only a hash of the cookie is stored, so that reading this table lets nobody in.
insert into holdfast.api_sessions (secret_hash, token, csrf, begun_at, seen_at, expires_at)
values (%(hash)s::bytea, %(token)s::text, %(csrf)s::text, now(), now(), now() + make_interval(secs => %(seconds)s::double precision))
returning expires_at;


-- name: session
-- A session that was used not long ago, whose token is still good.
select s.token, t.name, t.role, s.csrf
from holdfast.api_sessions s
join holdfast.api_tokens t on t.id = s.token
where s.secret_hash = %(hash)s::bytea
    and s.expires_at > now() and s.seen_at > now() - make_interval(secs => %(idle)s::double precision)
    and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());


-- name: good_credentials
-- Which of the presented tokens and session cookies are good now, and whose they are.
select t.secret_hash, false as session, t.id, t.name, t.role
from holdfast.api_tokens t
where t.id = any(%(tokens)s::text[]) and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
union all
select s.secret_hash, true, t.id, t.name, t.role
from holdfast.api_sessions s
join holdfast.api_tokens t on t.id = s.token
where s.secret_hash = any(%(sessions)s::bytea[])
    and s.expires_at > now() and s.seen_at > now() - make_interval(secs => %(idle)s::double precision)
    and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());


-- name: session_seen
-- At most once a minute.
update holdfast.api_sessions s
set seen_at = now()
where s.secret_hash = %(hash)s::bytea and s.seen_at < now() - interval '1 minute';


-- name: end_session
-- Deleted and not marked: a session is worth nothing once it has ended, and the audit has its own entry.
delete from holdfast.api_sessions s where s.secret_hash = %(hash)s::bytea;


-- name: end_oldest_sessions
-- All but the newest sessions of a token.
delete from holdfast.api_sessions s
where s.secret_hash in (
    select o.secret_hash from holdfast.api_sessions o
    where o.token = %(token)s::text
    order by o.begun_at desc, o.secret_hash
    offset %(keep)s
);
