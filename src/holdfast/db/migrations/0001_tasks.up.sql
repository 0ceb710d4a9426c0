-- The tables of a task's life. A task is one row of facts; where it stands is told by a narrow row
-- in ready, waiting or running, so that claims churn narrow tables alone.

create sequence holdfast.fence as bigint;
-- When a queue (by its hash) last sent a hint, in milliseconds: a clock that needs no row and no lock.
create sequence holdfast.hint_0 minvalue 0;
create sequence holdfast.hint_1 minvalue 0;
create sequence holdfast.hint_2 minvalue 0;
create sequence holdfast.hint_3 minvalue 0;
comment on sequence holdfast.fence is 'one value per claim statement: the lease token and the fencing token';

-- Columns that every claim reads come first: what lies behind them need not be looked at.
create table holdfast.tasks (
    id uuid primary key,
    enqueued_at timestamptz not null,
    run_at timestamptz not null,
    attempts integer not null default 0,
    polls integer not null default 0,
    failures smallint not null default 0,
    crashes smallint not null default 0,
    rate_limits smallint not null default 0,
    alone boolean not null default false,
    priority smallint not null check (priority between 0 and 3),
    version smallint not null default 1,
    kind text not null,
    queue text not null,
    payload jsonb not null,
    subject text,
    trace_id text,
    key text,
    bucket text,
    -- The place in a lane, in the order of enqueuing; only tasks with a lane have one.
    position bigint,
    max_attempts smallint check (max_attempts > 0),
    timeout_seconds real,
    expires_at timestamptz,
    progress real,
    -- When it was first polled, and when its progress last rose.
    polling_since timestamptz,
    progressed_at timestamptz,
    last_attempt_at timestamptz,
    failed_at timestamptz,
    marked_at timestamptz,
    mark text check (mark in ('failed', 'cancelled', 'paused')),
    mark_reason text,
    dead_reason text check (dead_reason in ('non_retryable', 'max_attempts_exceeded')),
    failure_class text,
    error_code text,
    error_message text,
    error_stack text,
    check ((mark is not null and mark = 'failed') = (dead_reason is not null)),
    -- One value that no client can read, or that no deadline can be made of, would stop every claim.
    constraint times_are_finite check (run_at < '9999-01-01' and run_at > '1970-01-01' and expires_at < '9999-01-01' and expires_at > '1970-01-01'),
    constraint timeout_is_finite check (timeout_seconds > 0 and timeout_seconds < 1e8)
) with (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02
);
comment on table holdfast.tasks is 'the facts of every task that has not completed; failed, cancelled and paused are marked here';

create index tasks_marked on holdfast.tasks (mark, marked_at desc, id desc) where mark is not null;
create index tasks_marked_kind on holdfast.tasks (kind, mark, marked_at desc) where mark is not null;
create index tasks_marked_trace on holdfast.tasks (trace_id) where mark is not null and trace_id is not null;
create index tasks_subject on holdfast.tasks (subject) where subject is not null;
create index tasks_lane on holdfast.tasks (bucket, position) where position is not null;
create index tasks_expiring on holdfast.tasks (expires_at) where expires_at is not null and mark is distinct from 'failed' and mark is distinct from 'cancelled';

-- Rows are inserted and deleted, never updated. The primary key is the order of claiming.
create table holdfast.ready (
    run_at timestamptz not null,
    id uuid not null,
    timeout_seconds real,
    priority smallint not null,
    queue text not null,
    kind text not null,
    bucket text,
    position bigint,
    primary key (queue, priority, run_at, id)
) with (
    autovacuum_vacuum_scale_factor = 0.02
);
comment on table holdfast.ready is 'what may start now, or at its time';

create table holdfast.buckets (
    name text primary key,
    kind text unique,
    queue text unique,
    capacity integer check (capacity >= 0),
    rate_count integer check (rate_count > 0),
    rate_seconds double precision check (rate_seconds > 0),
    rate_burst integer check (rate_burst > 0),
    -- The burst, less what 50 ms bring: so long a start may be under way after it was counted.
    rate_ahead double precision generated always as (greatest(1, rate_burst - floor(rate_count / rate_seconds * 0.05))) stored,
    weight real not null default 1 check (weight >= 1 and weight <= 1000),
    set_by text,
    set_at timestamptz,
    paused_at timestamptz,
    paused_by text,
    paused_until timestamptz,
    pause_reason text,
    resumed_at timestamptz,
    parked_at timestamptz,
    check ((rate_count is null) = (rate_seconds is null) and (rate_count is null) = (rate_burst is null))
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.buckets is 'what people set and workers lack: limits, weights, pauses, gates; kind and queue are doors that tasks step aside from';

create sequence holdfast.lane_position as bigint;

-- At most one row a bucket, made when it has work and room; whoever deletes it may lease its slots.
create table holdfast.turns (
    turn bigint not null,
    bucket text primary key,
    queue text not null,
    kind text not null
) with (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02
);
create index turns_order on holdfast.turns (queue, kind, turn);
comment on table holdfast.turns is 'buckets in the order in which they are served, by when that was last; one ahead of the clock waits for its rate';

create table holdfast.slots (
    worker uuid not null,
    slots integer not null check (slots > 0),
    epoch integer not null,
    number bigint not null,
    bucket text not null
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02
);
create index slots_of_bucket on holdfast.slots (bucket, number);
-- Apart, so that nothing but a walk in order can be planned with the second.
create index slots_in_order on holdfast.slots (number) where number < 9223372036854775807;
create index slots_of_doors on holdfast.slots (worker) where number = 9223372036854775807;
comment on table holdfast.slots is 'slots of limits, leased to workers, one row for a worker and a bucket; they come back with the lease of a worker';
comment on column holdfast.slots.number is 'the transaction that leased them, so that old ones are passed over; the largest number for limits of whole kinds and queues';

-- Of the buckets with one hash whoever locks the row may lease; never written, so nothing piles up.
create table holdfast.guards (
    number integer primary key
) with (fillfactor = 100);
insert into holdfast.guards select * from generate_series(0, 16383);
comment on table holdfast.guards is 'locked by whoever leases slots of a bucket with this hash';

create table holdfast.rates (
    spent_until timestamptz not null,
    bucket text primary key
) with (fillfactor = 50);
comment on table holdfast.rates is 'how far ahead the starts of a rate window are spent';

create table holdfast.waiting (
    position bigint not null,
    id uuid not null,
    timeout_seconds real,
    priority smallint not null,
    bucket text not null,
    queue text not null,
    kind text not null,
    primary key (bucket, priority, position, id)
) with (
    autovacuum_vacuum_scale_factor = 0.02
);
create unique index waiting_id on holdfast.waiting (id);
create index waiting_kind on holdfast.waiting (kind);
comment on table holdfast.waiting is 'what is due but stands behind a bucket';

-- Rows are inserted and deleted, never updated: the statements that settle find them by their place.
create table holdfast.running (
    id uuid primary key,
    fence bigint not null,
    started_at timestamptz not null,
    deadline_at timestamptz not null,
    worker uuid not null
) with (
    autovacuum_vacuum_scale_factor = 0.02
);
comment on table holdfast.running is 'what a worker holds, under a fence';

create table holdfast.cancel_requests (
    task_id uuid not null,
    fence bigint not null,
    requested_at timestamptz not null,
    reason text not null,
    primary key (task_id, fence)
);
comment on table holdfast.cancel_requests is 'claims that were asked to stop; swept up once they have ended';

create table holdfast.wakes (
    task_id uuid not null,
    fence bigint not null,
    woken_at timestamptz not null,
    primary key (task_id, fence)
);
comment on table holdfast.wakes is 'claims that are to poll once more, because something happened while they polled';

create table holdfast.followups (
    task_id uuid primary key,
    -- Those that it comes after, and one of them that has not ended.
    predecessors uuid[] not null,
    pivot uuid not null,
    -- What it stands behind once they have ended.
    bucket text,
    released_at timestamptz
);
create index followups_waiting on holdfast.followups (task_id) where released_at is null;
comment on table holdfast.followups is 'tasks that start when others have ended';

create table holdfast.workers (
    id uuid primary key,
    name text not null,
    registered_at timestamptz not null default now(),
    lease_expires_at timestamptz not null,
    lost_at timestamptz,
    queues text[] not null default '{}',
    kinds text[] not null default '{}'
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.workers is 'one lease per executor, renewed in one statement';

create table holdfast.maintenance (
    name text primary key,
    holder uuid not null,
    expires_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.maintenance is 'the lease of whoever does the chores of the whole installation';

create table holdfast.queues (
    name text primary key,
    paused_at timestamptz,
    paused_by text,
    paused_until timestamptz,
    pause_reason text,
    resumed_at timestamptz
);
comment on table holdfast.queues is 'queues that were paused; read by every claim, so it is seldom written';

create table holdfast.schedules (
    name text primary key,
    kind text not null,
    queue text not null,
    version smallint not null,
    expression text not null,
    zone text not null,
    payload jsonb not null,
    bucket text,
    missed text not null check (missed in ('skip', 'one', 'all')),
    most integer not null check (most > 0),
    jitter_seconds double precision not null check (jitter_seconds >= 0),
    next_at timestamptz not null,
    last_tick_at timestamptz,
    declared_at timestamptz not null,
    paused_at timestamptz,
    paused_by text,
    pause_reason text
) with (fillfactor = 50);
comment on table holdfast.schedules is 'what is made by itself; next_at moves on in the commit that makes the tasks';

-- Apart from queues: it is written every second, and beside an old snapshot its versions pile up.
create table holdfast.sweeps (
    queue text primary key,
    due_at timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_cost_delay = 0);
comment on table holdfast.sweeps is 'when the next walk below the floor of a queue may begin';

create table holdfast.task_keys (
    kind text not null,
    key text not null,
    task_id uuid not null,
    payload_hash uuid not null,
    expires_at timestamptz not null,
    primary key (kind, key)
);
create index task_keys_expiring on holdfast.task_keys (expires_at);
comment on table holdfast.task_keys is 'idempotency: a key is unique per kind for a window';

-- By day. Partitions are made 14 days ahead and dropped by detaching, never by deleting rows.
create table holdfast.task_history (
    id uuid not null,
    finished_at timestamptz not null,
    enqueued_at timestamptz not null,
    started_at timestamptz not null,
    fence bigint not null,
    worker uuid not null,
    attempts integer not null,
    polls integer not null,
    failures smallint not null,
    crashes smallint not null,
    priority smallint not null,
    version smallint not null,
    kind text not null,
    queue text not null,
    payload jsonb,
    result jsonb,
    subject text,
    trace_id text,
    key text
) partition by range (finished_at);
create index task_history_id on holdfast.task_history (id);
create index task_history_finished on holdfast.task_history using brin (finished_at) with (pages_per_range = 16);
comment on table holdfast.task_history is 'completed tasks, lean, with their execution time';

create table holdfast.task_attempts (
    task_id uuid not null,
    ended_at timestamptz not null,
    started_at timestamptz not null,
    fence bigint not null,
    worker uuid not null,
    ended_as text not null check (ended_as in ('retry', 'snooze', 'release', 'reclaim', 'fail', 'cancel', 'late')),
    kind text not null,
    reason text,
    progress real,
    failure_class text,
    error_code text,
    error_message text,
    error_stack text
) partition by range (ended_at);
create index task_attempts_task on holdfast.task_attempts (task_id, fence);
comment on table holdfast.task_attempts is 'every claim that ended otherwise than in success';

create table holdfast.settled_deltas (
    settled_at timestamptz not null,
    tasks integer not null,
    run_seconds double precision not null,
    kind text not null,
    ended_as text not null
);
comment on table holdfast.settled_deltas is 'one row per settling group, kind and outcome; rolled up by minute';

create table holdfast.settled_minutes (
    minute timestamptz not null,
    kind text not null,
    ended_as text not null,
    tasks bigint not null,
    run_seconds double precision not null,
    primary key (minute, kind, ended_as)
);
comment on table holdfast.settled_minutes is 'what ended when: the source of counts and charts';

-- One view shows people the state; nothing on the hot path reads it.
create view holdfast.task_states as
select
    t.id,
    t.kind,
    t.queue,
    case
        when t.mark is not null then t.mark
        when r.id is not null then 'running'
        else 'queued'
    end as state,
    t.priority,
    t.payload,
    null::jsonb as result,
    t.subject,
    t.trace_id,
    t.key,
    t.attempts,
    t.failures,
    t.crashes,
    t.polls,
    t.rate_limits,
    t.max_attempts,
    r.fence,
    r.worker,
    coalesce(w.bucket, t.bucket) as bucket,
    t.enqueued_at,
    case when t.mark is null and r.id is null then t.run_at end as next_attempt_at,
    coalesce(r.started_at, t.last_attempt_at) as last_attempt_at,
    case when t.mark in ('failed', 'cancelled') then t.marked_at end as finished_at,
    null::double precision as execution_seconds,
    t.progress,
    t.dead_reason,
    t.mark_reason,
    t.failure_class,
    t.error_code,
    t.error_message,
    t.error_stack,
    t.failed_at
from holdfast.tasks t
left join holdfast.running r on r.id = t.id
left join holdfast.waiting w on w.id = t.id
union all
select
    h.id,
    h.kind,
    h.queue,
    'completed',
    h.priority,
    h.payload,
    h.result,
    h.subject,
    h.trace_id,
    h.key,
    h.attempts,
    h.failures,
    h.crashes,
    h.polls,
    0::smallint,
    null,
    h.fence,
    h.worker,
    null,
    h.enqueued_at,
    null,
    h.started_at,
    h.finished_at,
    extract(epoch from h.finished_at - h.started_at),
    null,
    null,
    null,
    null,
    null,
    null,
    null,
    null
from holdfast.task_history h;
