-- Failures that can be operated: groups of them, plans that put many right, and the audit of who did what.

alter table holdfast.tasks
    add column fingerprint text,
    add column replay_count integer not null default 0,
    add column last_replayed_at timestamptz,
    add column last_replayed_by text,
    add column last_replay_reason text;
create index tasks_marked_fingerprint on holdfast.tasks (fingerprint, marked_at desc, id desc) where mark = 'failed';
alter table holdfast.task_attempts add column fingerprint text;

create table holdfast.task_edits (
    task_id uuid not null,
    edited_at timestamptz not null,
    edited_by text not null,
    reason text not null,
    version smallint not null,
    payload jsonb not null,
    primary key (task_id, edited_at)
);
comment on table holdfast.task_edits is 'payloads as they were before an operator changed them';

-- Written when a cause is first seen and when a person says something of it; never by the next failure.
create table holdfast.failure_groups (
    fingerprint text primary key,
    kind text not null,
    failure_class text not null,
    error_code text not null,
    message text,
    first_seen_at timestamptz not null,
    ignored_until timestamptz,
    resolved_at timestamptz,
    owner text,
    note text,
    changed_by text,
    changed_at timestamptz
);
create index failure_groups_kind on holdfast.failure_groups (kind);
comment on table holdfast.failure_groups is 'failures with one cause, as far as a machine can tell';

create table holdfast.failure_deltas (
    failed_at timestamptz not null,
    failures integer not null,
    fingerprint text not null
);
comment on table holdfast.failure_deltas is 'one row per settling group and cause; rolled up by the hour';

create table holdfast.failure_hours (
    fingerprint text not null,
    hour timestamptz not null,
    failures bigint not null,
    last_at timestamptz not null,
    primary key (fingerprint, hour)
) with (fillfactor = 70);
comment on table holdfast.failure_hours is 'how often a cause was met, and when last';

create sequence holdfast.audit_chunk as bigint;

-- What one statement noted is a chunk; it is sealed as a whole, after its commit.
create table holdfast.audit_log (
    chunk bigint not null,
    place integer not null,
    at timestamptz not null,
    action text not null,
    actor text not null,
    reason text not null,
    batch_id uuid,
    task_id uuid,
    kind text,
    subject text,
    trace_id text,
    details jsonb,
    primary key (chunk, place)
) with (autovacuum_vacuum_insert_scale_factor = 0.5);
create index audit_log_task on holdfast.audit_log (task_id) where task_id is not null;
create index audit_log_batch on holdfast.audit_log (batch_id, chunk) where batch_id is not null;
create index audit_log_at on holdfast.audit_log using brin (at) with (pages_per_range = 32);
comment on table holdfast.audit_log is 'who did what, why, and what came of it; rows are added in the commit of their effect, and never changed';

create table holdfast.audit_unsealed (
    chunk bigint primary key
);
comment on table holdfast.audit_unsealed is 'chunks of the audit that are not in the chain yet';

create table holdfast.audit_seals (
    number bigint primary key,
    chunk bigint not null unique,
    entries integer not null,
    hash bytea not null,
    sealed_at timestamptz not null
);
comment on table holdfast.audit_seals is 'the chain: each seal covers one chunk and the seal before';

create table holdfast.audit_pruned (
    chunk bigint not null,
    place integer not null,
    batch_id uuid not null,
    hash bytea not null,
    primary key (chunk, place)
);
create index audit_pruned_batch on holdfast.audit_pruned (batch_id);
comment on table holdfast.audit_pruned is 'the hashes of entries whose content was let go, each under the prune that did it';

create function holdfast.refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using errcode = '42501', message = format('%s is append-only', tg_table_name);
end
$$;
create function holdfast.refuse_removal() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from holdfast.audit_pruned p where p.chunk = old.chunk and p.place = old.place) then
        raise exception using errcode = '42501', message = 'audit_log is append-only: prune it with holdfast audit prune';
    end if;
    return old;
end
$$;
create trigger append_only before update or truncate on holdfast.audit_log for each statement execute function holdfast.refuse_change();
create trigger kept before delete on holdfast.audit_log for each row execute function holdfast.refuse_removal();
create trigger append_only before update or delete or truncate on holdfast.audit_seals for each statement execute function holdfast.refuse_change();
create trigger append_only before update or delete or truncate on holdfast.audit_pruned for each statement execute function holdfast.refuse_change();

create table holdfast.plans (
    id uuid primary key,
    action text not null check (action in ('redrive', 'forget')),
    state text not null check (state in ('frozen', 'running', 'paused', 'stopped', 'aborted', 'finished')),
    created_at timestamptz not null,
    created_by text not null,
    reason text not null,
    filter jsonb not null,
    items integer not null,
    set_hash text not null,
    excluded jsonb not null,
    money_effect numeric,
    expires_at timestamptz not null,
    canary integer not null check (canary >= 0),
    rate double precision check (rate > 0),
    stop_ratio double precision not null check (stop_ratio >= 0 and stop_ratio <= 1),
    needs_approval boolean not null,
    approved_by text check (approved_by <> created_by),
    approved_at timestamptz,
    started_by text,
    started_at timestamptz,
    ramp_from timestamptz,
    ramp_sent integer not null default 0,
    next_place integer not null default 1,
    sent integer not null default 0,
    skipped integer not null default 0,
    followed_to integer not null default 1,
    succeeded integer not null default 0,
    failed_same integer not null default 0,
    failed_anew integer not null default 0,
    cancelled integer not null default 0,
    gone integer not null default 0,
    ended_at timestamptz,
    ended_why text,
    followed_at timestamptz,
    check (state in ('frozen', 'aborted') or not needs_approval or approved_by is not null)
) with (fillfactor = 50);
comment on table holdfast.plans is 'what an operator does to many dead letters at once: frozen, approved, tried on a few, then on all';

-- The frozen set: never changed once it is made.
create table holdfast.plan_items (
    plan_id uuid not null,
    place integer not null,
    task_id uuid not null,
    marked_at timestamptz not null,
    fingerprint text,
    primary key (plan_id, place)
);
comment on table holdfast.plan_items is 'the tasks of a plan in the order in which they go, as they stood when it was made';

create table holdfast.plan_skips (
    plan_id uuid not null,
    place integer not null,
    task_id uuid not null,
    reason text not null,
    primary key (plan_id, place)
);
comment on table holdfast.plan_skips is 'items that were left alone, and why';

create table holdfast.plan_outcomes (
    plan_id uuid not null,
    place integer not null,
    task_id uuid not null,
    outcome text not null check (outcome in ('succeeded', 'failed_same', 'failed_anew', 'cancelled', 'gone')),
    ended_at timestamptz not null,
    primary key (plan_id, place)
);
comment on table holdfast.plan_outcomes is 'how the next life of each item ended';
