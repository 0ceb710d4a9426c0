-- Endpoints that events are delivered to, and what they answered. A delivery itself is a task.

create table holdfast.webhook_endpoints (
    id uuid primary key,
    url text not null,
    description text not null,
    events text[] not null,
    in_order boolean not null,
    running_max integer,
    created_at timestamptz not null default now(),
    created_by text not null,
    disabled_at timestamptz,
    disabled_because text,
    -- How it fares. Written when it fails and when it is well again, not by every delivery.
    failing_since timestamptz,
    failures integer not null default 0,
    breaks integer not null default 0,
    left_alone_until timestamptz
);
comment on table holdfast.webhook_endpoints is 'where events are delivered; no event types means all of them';

create table holdfast.webhook_keys (
    endpoint uuid not null references holdfast.webhook_endpoints (id) on delete cascade,
    id text not null,
    secret bytea not null,
    created_at timestamptz not null default now(),
    retires_at timestamptz,
    primary key (endpoint, id)
);
comment on table holdfast.webhook_keys is 'what deliveries are signed with: the newest first, the others until they retire';

create table holdfast.webhook_attempts (
    at timestamptz not null,
    endpoint uuid not null,
    task_id uuid not null,
    attempt integer not null,
    event text not null,
    type text not null,
    url text not null,
    signed_at bigint not null,
    keys text[] not null,
    body_bytes integer not null,
    took_seconds real not null,
    status smallint,
    code text,
    message text,
    answer_head text
) partition by range (at);
create index webhook_attempts_endpoint on holdfast.webhook_attempts (endpoint, at);
create index webhook_attempts_task on holdfast.webhook_attempts (task_id);
comment on table holdfast.webhook_attempts is 'the delivery log: one row for each request that was sent, or was not for its address';
