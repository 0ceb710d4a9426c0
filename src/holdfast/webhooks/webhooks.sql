-- name: create
insert into holdfast.webhook_endpoints (id, url, description, events, in_order, running_max, created_by)
values (%(id)s, %(url)s, %(description)s, %(events)s, %(in_order)s, %(running_max)s, %(by)s);

-- name: hold
select from holdfast.webhook_endpoints where id = %(id)s for update;

-- name: change
-- What is held against it was about another address.
update holdfast.webhook_endpoints e
set url = %(url)s, description = %(description)s, events = %(events)s,
    failing_since = case when e.url = %(url)s then e.failing_since end,
    failures = case when e.url = %(url)s then e.failures else 0 end,
    breaks = case when e.url = %(url)s then e.breaks else 0 end,
    left_alone_until = case when e.url = %(url)s then e.left_alone_until end
where e.id = %(id)s;

-- name: add_key
insert into holdfast.webhook_keys (endpoint, id, secret) values (%(endpoint)s, %(id)s, %(secret)s);

-- name: retire_keys
-- All but the newest sign until then; those whose time is over go.
with gone as (delete from holdfast.webhook_keys where endpoint = %(endpoint)s and retires_at <= now())
update holdfast.webhook_keys
set retires_at = least(retires_at, now() + make_interval(secs => %(seconds)s))
where endpoint = %(endpoint)s and id <> %(newest)s;

-- name: disable
update holdfast.webhook_endpoints
set disabled_at = now(), disabled_because = %(reason)s
where id = %(id)s and disabled_at is null
returning url;

-- name: enable
update holdfast.webhook_endpoints
set disabled_at = null, disabled_because = null, failing_since = null, failures = 0, breaks = 0, left_alone_until = null
where id = %(id)s and disabled_at is not null
returning url;

-- name: remove
delete from holdfast.webhook_endpoints where id = %(id)s returning url;

-- name: endpoints
select
    e.id::text, e.url, e.description, e.events, e.in_order, e.running_max, e.created_at, e.created_by,
    e.disabled_at, e.disabled_because, e.failing_since, e.failures, e.left_alone_until,
    array(select k.id from holdfast.webhook_keys k where k.endpoint = e.id order by k.created_at desc)
from holdfast.webhook_endpoints e
where %(id)s::uuid is null or e.id = %(id)s
order by e.created_at, e.id;

-- name: subscribed
-- Whoever wants events of these types, by type; ours are for those who name them. For one that is disabled they
-- become dead letters, to be sent again once it is not, until it has been so for a week.
select t.type, e.id::text, e.in_order
from unnest(%(types)s::text[]) t (type)
join holdfast.webhook_endpoints e
    on (e.events = '{}' and not starts_with(t.type, 'webhook.'))
    or exists (
        select from unnest(e.events) w (type)
        where w.type = t.type
            or (w.type like '%%.*' and starts_with(t.type, left(w.type, -1)) and not starts_with(t.type, 'webhook.'))
    )
where e.disabled_at is null or e.disabled_at > now() - make_interval(days => %(days)s)
order by e.created_at, e.id;

-- name: for_delivery
select
    e.url,
    e.disabled_because,
    e.failing_since is not null,
    extract(epoch from e.left_alone_until - now())::float8,
    array(
        select k.id || ':' || encode(k.secret, 'base64')
        from holdfast.webhook_keys k
        where k.endpoint = e.id and (k.retires_at is null or k.retires_at > now())
        order by k.created_at desc
    )
from holdfast.webhook_endpoints e
where e.id = %(id)s;

-- name: probe
-- One delivery goes to see whether the endpoint is well again; the others wait for what it finds.
update holdfast.webhook_endpoints
set left_alone_until = now() + make_interval(secs => %(seconds)s)
where id = %(id)s and left_alone_until <= now()
returning true;

-- name: failed
-- Once more in a row. It is left alone from the fifth on, and again after each probe that failed.
update holdfast.webhook_endpoints e
set
    failing_since = coalesce(e.failing_since, now()),
    failures = e.failures + 1,
    breaks = e.breaks + s.breaks::integer,
    left_alone_until = case
        when s.breaks then now() + make_interval(secs => least(%(seconds)s * 2.0 ^ least(e.breaks, 20), %(seconds_max)s))
        else e.left_alone_until
    end
from (
    select f.id, %(probe)s or (f.failures + 1 >= %(after)s and f.left_alone_until is null) as breaks
    from holdfast.webhook_endpoints f
    where f.id = %(id)s
    for update
) s
where e.id = s.id
returning e.failing_since < now() - make_interval(days => %(days)s) and e.failures >= %(after)s;

-- name: recovered
update holdfast.webhook_endpoints
set failing_since = null, failures = 0, breaks = 0, left_alone_until = null
where id = %(id)s and failing_since is not null;

-- name: log
insert into holdfast.webhook_attempts (
    at, endpoint, task_id, attempt, event, type, url, signed_at, keys, body_bytes, took_seconds, status, code, message, answer_head
)
select
    r.at, r.endpoint, r.task_id, r.attempt, r.event, r.type, r.url, r.signed_at, string_to_array(r.keys, ' '), r.body_bytes, r.took_seconds,
    r.status, r.code, r.message, r.answer_head
from unnest(
    %(at)s::timestamptz[], %(endpoint)s::uuid[], %(task_id)s::uuid[], %(attempt)s::integer[], %(event)s::text[], %(type)s::text[],
    %(url)s::text[], %(signed_at)s::bigint[], %(keys)s::text[], %(body_bytes)s::integer[], %(took_seconds)s::real[],
    %(status)s::smallint[], %(code)s::text[], %(message)s::text[], %(answer_head)s::text[]
) r (
    at, endpoint, task_id, attempt, event, type, url, signed_at, keys, body_bytes, took_seconds, status, code, message, answer_head
);

-- name: attempts
-- Of one endpoint or of one delivery, the latest first.
select
    a.at, a.endpoint::text, a.task_id::text, a.attempt, a.event, a.type, a.url, a.signed_at, a.keys, a.body_bytes,
    a.took_seconds, a.status, a.code, a.message, a.answer_head
from holdfast.webhook_attempts a
where (%(endpoint)s::uuid is null or a.endpoint = %(endpoint)s)
    and (%(task)s::uuid is null or a.task_id = %(task)s)
    and (%(before)s::timestamptz is null or a.at < %(before)s)
    and (not %(failed)s or a.status is null or a.status not between 200 and 299)
order by a.at desc
limit %(limit)s;

-- name: delivered_since
-- What was delivered to an endpoint from a moment on, each event once and in their order, while history has it.
select d.payload
from (
    select distinct on (a.event) a.event, a.at, h.payload::text as payload
    from holdfast.webhook_attempts a
    join holdfast.task_history h on h.id = a.task_id
    where a.endpoint = %(endpoint)s and a.at >= %(since)s and a.status between 200 and 299
    order by a.event, a.at
    limit %(limit)s
) d
order by d.at;
