-- name: grants
-- Least-privilege roles. Enqueuing goes through functions that run with their owner's rights, so an
-- enqueuer can make tasks and do nothing else; nobody but the owner changes the schema.
do $$
declare
    role text;
begin
    foreach role in array array['holdfast_enqueuer', 'holdfast_worker', 'holdfast_api', 'holdfast_operator'] loop
        begin
            if not exists (select from pg_roles where rolname = role) then
                execute 'create role ' || role || ' nologin';
            end if;
        exception when duplicate_object or unique_violation then
            -- Roles belong to the whole server: another database has just made it.
            null;
        end;
    end loop;
end
$$;
-- Nothing that an earlier version granted stays.
revoke all on all functions in schema holdfast from public, holdfast_enqueuer, holdfast_worker, holdfast_api, holdfast_operator;
revoke all on all tables in schema holdfast from public, holdfast_enqueuer, holdfast_worker, holdfast_api, holdfast_operator;
revoke all on all sequences in schema holdfast from public, holdfast_enqueuer, holdfast_worker, holdfast_api, holdfast_operator;
grant usage on schema holdfast to holdfast_enqueuer, holdfast_worker, holdfast_api, holdfast_operator;

-- Producers: new tasks and events, through functions that check them.
grant execute on function holdfast.enqueue, holdfast.enqueue_many, holdfast.enqueue_after, holdfast.uuid7, holdfast.publish_event
    to holdfast_enqueuer, holdfast_worker, holdfast_api, holdfast_operator;

-- Whoever runs tasks: workers, and the API for workers over HTTP.
grant execute on function holdfast.release_followups, holdfast.claim, holdfast.block_heads, holdfast.lease_at_once, holdfast.claim_blocked,
    holdfast.has_turn, holdfast.free_permits, holdfast.enlist_heads, holdfast.enlist, holdfast.hint, holdfast.require_moved
    to holdfast_worker, holdfast_api;
grant insert, update, delete on holdfast.tasks, holdfast.ready, holdfast.blocked, holdfast.running, holdfast.cancel_requests,
    holdfast.wakes, holdfast.followups, holdfast.buckets, holdfast.line, holdfast.permits, holdfast.rates, holdfast.bucket_locks,
    holdfast.queues, holdfast.schedules, holdfast.workers, holdfast.task_keys
    to holdfast_worker, holdfast_api;
grant insert on holdfast.task_history, holdfast.task_attempts, holdfast.settled_deltas, holdfast.failure_deltas, holdfast.releases
    to holdfast_worker, holdfast_api;
grant usage on sequence holdfast.fence to holdfast_worker, holdfast_api;

-- What maintenance does, which only workers do.
grant execute on function holdfast.make_partition to holdfast_worker;
grant insert, update, delete on holdfast.sweeps, holdfast.maintenance, holdfast.settled_minutes, holdfast.settled_totals,
    holdfast.samples, holdfast.failure_hours, holdfast.failure_releases
    to holdfast_worker;
grant update, delete on holdfast.settled_deltas, holdfast.failure_deltas to holdfast_worker;
grant insert, delete on holdfast.queue_minutes to holdfast_worker;

-- What operators do, by the API or by a command, and what drives their plans.
grant execute on function holdfast.enlist, holdfast.hint, holdfast.require_moved to holdfast_operator;
grant insert, update, delete on holdfast.tasks, holdfast.ready, holdfast.blocked, holdfast.buckets, holdfast.line, holdfast.queues,
    holdfast.schedules, holdfast.task_keys
    to holdfast_operator;
grant insert, update on holdfast.cancel_requests, holdfast.wakes to holdfast_operator;
-- To share the lock of a row needs the right to change a column of it.
grant update (deadline_at) on holdfast.running to holdfast_operator;
grant execute on function holdfast.payload_bytes_max to holdfast_worker, holdfast_api, holdfast_operator;
grant insert, update on holdfast.plans, holdfast.failure_groups to holdfast_worker, holdfast_api, holdfast_operator;
grant insert on holdfast.plan_items, holdfast.plan_skips, holdfast.plan_outcomes to holdfast_worker, holdfast_api, holdfast_operator;
grant insert, delete on holdfast.task_edits to holdfast_worker, holdfast_api, holdfast_operator;

-- The audit is written by functions only: whoever does something says so through them, and nobody takes it back.
grant execute on function holdfast.note, holdfast.note_tasks, holdfast.note_items, holdfast.audit_hash, holdfast.seal_audit,
    holdfast.proven_identity, holdfast.audit_prune_days_min
    to holdfast_worker, holdfast_api, holdfast_operator;
grant execute on function holdfast.prune_audit_expired to holdfast_worker;
grant execute on function holdfast.prune_audit to holdfast_api, holdfast_operator;
-- To read where the sequence is, for `verify`.
grant select on sequence holdfast.audit_chunk to holdfast_worker, holdfast_api, holdfast_operator;

-- What is declared of a kind decides what is shown of its tasks.
grant insert, update, delete on holdfast.kinds to holdfast_worker;
grant insert, update on holdfast.kinds to holdfast_api;

grant select on all tables in schema holdfast to holdfast_worker, holdfast_api, holdfast_operator;

-- Who may use the HTTP API is the API's to know; maintenance removes what is over, and reads no more than when that is.
grant insert, update, delete on holdfast.api_tokens, holdfast.api_answers, holdfast.api_sessions to holdfast_api;
revoke select on holdfast.api_tokens, holdfast.api_answers, holdfast.api_sessions from holdfast_worker, holdfast_operator;
grant delete on holdfast.api_answers, holdfast.api_sessions to holdfast_worker;
grant select (actor, key, answered_at) on holdfast.api_answers to holdfast_worker;
grant select (expires_at) on holdfast.api_sessions to holdfast_worker;

-- Who sets a signing key need not be able to read it again.
revoke select on holdfast.webhook_keys from holdfast_api, holdfast_operator;
grant select (endpoint, id, created_at, retires_at) on holdfast.webhook_keys to holdfast_api, holdfast_operator;
grant insert, update, delete on holdfast.webhook_endpoints, holdfast.webhook_keys to holdfast_worker, holdfast_api, holdfast_operator;
grant insert on holdfast.webhook_attempts to holdfast_worker;
