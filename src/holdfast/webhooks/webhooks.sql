-- name: install_check_event
-- Refuses what a producer hands in as an event and cannot be delivered. Python checks the same before it publishes
-- (webhooks/publish.py). Types that begin with webhook. are reserved for Holdfast's own notices.
create or replace function holdfast.check_event(event jsonb) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    wrong text;
begin
    wrong := case
        when jsonb_typeof(event) <> 'object' or event - array['id', 'type', 'data', 'version', 'occurred_at'] <> '{}'
            then 'it has id, type, data, version and occurred_at, and nothing else'
        when (jsonb_typeof(event -> 'id') = 'string' and event ->> 'id' ~ '^[A-Za-z0-9_-]{1,100}$') is not true
            then 'its id has 1 to 100 letters, digits, _ or -'
        when (jsonb_typeof(event -> 'type') = 'string' and event ->> 'type' ~ '^[A-Za-z0-9_.-]{1,200}$') is not true
            then 'its type has 1 to 200 letters, digits, and any of . _ -'
        when (jsonb_typeof(event -> 'data') = 'string') is not true then 'its data is the text of a JSON document'
        when event ->> 'version' is not null and (jsonb_typeof(event -> 'version') = 'number' and event ->> 'version' ~ '^-?[0-9]{1,18}$') is not true
            then 'its version is a whole number'
        -- A delivery is larger than its event, and must fit as well.
        when octet_length(event::text) + 1000 > holdfast.payload_bytes_max() then 'it is too large to be delivered'
    end;
    if wrong is null then
        begin
            perform (event ->> 'data')::json, (event ->> 'occurred_at')::timestamptz;
        exception when data_exception or statement_too_complex then
            wrong := 'its data is no JSON, or its occurred_at no time';
        end;
    end if;
    if wrong is not null then
        raise exception using errcode = 'HF005', message = 'this is no event: ' || wrong;
    end if;
    if starts_with(event ->> 'type', 'webhook.') then
        raise exception using
            errcode = 'HF005',
            message = format('event type %L is reserved: types that begin with webhook. are published by Holdfast only', event ->> 'type');
    end if;
end
$$;

-- name: install_publish_event
-- Publishes an event in the caller's transaction, for triggers and other languages; answers the event's id. The same
-- id twice within a day is one event. The queue is the one of HOLDFAST_WEBHOOKS_QUEUE.
create or replace function holdfast.publish_event(
    type text,
    data jsonb,
    id text default null,
    version bigint default null,
    occurred_at timestamptz default null,
    subject text default null,
    queue text default 'default'
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    event_id text := coalesce(id, 'evt_' || replace(holdfast.uuid7()::text, '-', ''));
    event jsonb := jsonb_build_object('id', event_id, 'type', type, 'data', data::text, 'version', version, 'occurred_at', occurred_at);
begin
    perform holdfast.check_event(event);
    perform holdfast.enqueue(
        kind => 'webhook.publish', payload => event, queue => publish_event.queue, subject => publish_event.subject, key => event_id
    );
    return event_id;
end
$$;

-- name: create
-- The key is added by a statement of its own, because an endpoint may have several while keys are rotated.
insert into holdfast.webhook_endpoints (id, url, description, events, in_order, running_max, created_by)
values (%(id)s, %(url)s, %(description)s, %(events)s, %(in_order)s, %(running_max)s, %(by)s);

-- name: hold
-- Locks the endpoint until the change is committed, so that the audit records the values that were replaced.
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
-- Older keys sign beside it until they retire, so that a receiver can change keys without losing a delivery.
insert into holdfast.webhook_keys (endpoint, id, secret) values (%(endpoint)s, %(id)s, %(secret)s);

-- name: retire_keys
-- All but the newest sign until then; those whose time is over go.
with gone as (delete from holdfast.webhook_keys where endpoint = %(endpoint)s and retires_at <= now())
update holdfast.webhook_keys
set retires_at = least(retires_at, now() + make_interval(secs => %(seconds)s::double precision))
where endpoint = %(endpoint)s and id <> %(newest)s;

-- name: disable
-- Answers only if it was enabled, so that the first reason is kept and the change is reported once.
update holdfast.webhook_endpoints
set disabled_at = now(), disabled_because = %(reason)s
where id = %(id)s and disabled_at is null
returning url;

-- name: enable
-- Forgets earlier failures, so that one more failure does not disable the endpoint again at once.
update holdfast.webhook_endpoints
set disabled_at = null, disabled_because = null, failing_since = null, failures = 0, breaks = 0, left_alone_until = null
where id = %(id)s and disabled_at is not null
returning url;

-- name: remove
-- The delivery log has no foreign key to the endpoint, so that it outlives it.
delete from holdfast.webhook_endpoints where id = %(id)s returning url;

-- name: endpoints
-- With the ids of the keys and without their secrets, so that a list never shows a secret.
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
where e.disabled_at is null or e.disabled_at > now() - make_interval(days => %(days)s::integer)
order by e.created_at, e.id;

-- name: for_delivery
-- An endpoint as a delivery needs it, and the clock that dates and signs what is sent. It is left alone no longer than the
-- longest break: the clock may have been put back.
select
    e.url,
    e.disabled_because,
    e.failing_since is not null,
    case when e.left_alone_until is not null then least(extract(epoch from e.left_alone_until - now()), %(seconds_max)s)::float8 end,
    array(
        select k.id || ':' || encode(k.secret, 'base64')
        from holdfast.webhook_keys k
        where k.endpoint = e.id and (k.retires_at is null or k.retires_at > now())
        order by k.created_at desc
    ),
    clock_timestamp()
from holdfast.webhook_endpoints e
where e.id = %(id)s;

-- name: probe
-- One delivery goes to see whether the endpoint is well again; the others wait for what it finds.
update holdfast.webhook_endpoints
set left_alone_until = now() + make_interval(secs => %(seconds)s::double precision)
where id = %(id)s and left_alone_until not between now() and now() + make_interval(secs => %(seconds_max)s::double precision)
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
returning e.failing_since < now() - make_interval(days => %(days)s::integer) and e.failures >= %(after)s;

-- name: recovered
-- Several deliveries may find an endpoint failing at the same time; only the first of them writes.
update holdfast.webhook_endpoints
set failing_since = null, failures = 0, breaks = 0, left_alone_until = null
where id = %(id)s and failing_since is not null;

-- name: log
-- Attempts that ended together are written in one insert, because a round trip for each would bound the rate.
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
