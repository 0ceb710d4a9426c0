-- name: grants
-- Least-privilege roles. Enqueuing goes through functions that run with their owner's rights, so an
-- enqueuer can make tasks and do nothing else; nobody but the owner changes the schema.
do $$
declare
    role text;
begin
    foreach role in array array['holdfast_enqueuer', 'holdfast_worker', 'holdfast_api'] loop
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
revoke all on all functions in schema holdfast from public;
grant usage on schema holdfast to holdfast_enqueuer, holdfast_worker, holdfast_api;
grant execute on function holdfast.enqueue, holdfast.enqueue_many, holdfast.enqueue_after, holdfast.uuid7
    to holdfast_enqueuer, holdfast_worker, holdfast_api;
grant execute on function holdfast.make_partition, holdfast.release_followups, holdfast.claim, holdfast.shunt, holdfast.lease_at_once, holdfast.claim_waiting, holdfast.has_turn, holdfast.free_slots, holdfast.turn_over, holdfast.offer, holdfast.hint to holdfast_worker;
grant execute on function holdfast.offer, holdfast.hint to holdfast_api;
-- Whoever does something may say so, and nobody may take it back: the audit is only added to.
grant execute on function holdfast.note, holdfast.note_tasks, holdfast.audit_hash, holdfast.seal_audit, holdfast.prune_audit to holdfast_worker, holdfast_api;
grant insert on holdfast.audit_log, holdfast.audit_unsealed to holdfast_worker, holdfast_api;
grant usage on sequence holdfast.audit_chunk to holdfast_worker, holdfast_api;
grant insert, update on holdfast.plans to holdfast_worker, holdfast_api;
grant insert on holdfast.plan_items, holdfast.plan_skips, holdfast.plan_outcomes to holdfast_worker, holdfast_api;
grant insert, update on holdfast.failure_groups to holdfast_worker, holdfast_api;
grant insert, delete on holdfast.task_edits to holdfast_worker, holdfast_api;
grant insert, update, delete on holdfast.failure_deltas, holdfast.failure_hours, holdfast.failure_releases to holdfast_worker;
grant insert on holdfast.releases to holdfast_worker;
grant insert, delete on holdfast.queue_minutes to holdfast_worker;
grant delete on holdfast.task_keys to holdfast_api;
grant insert, update, delete on holdfast.api_tokens, holdfast.api_answers, holdfast.api_sessions to holdfast_api;
grant delete on holdfast.api_answers, holdfast.api_sessions to holdfast_worker;
grant select on all tables in schema holdfast to holdfast_worker, holdfast_api;
-- Who sets a secret need not be able to read it again.
revoke select on holdfast.webhook_keys from holdfast_api;
grant select (endpoint, id, created_at, retires_at) on holdfast.webhook_keys to holdfast_api;
grant insert, update, delete on holdfast.webhook_endpoints, holdfast.webhook_keys to holdfast_worker, holdfast_api;
grant insert on holdfast.webhook_attempts to holdfast_worker;
grant insert, update, delete on holdfast.tasks, holdfast.ready, holdfast.waiting, holdfast.running,
    holdfast.cancel_requests, holdfast.wakes, holdfast.followups, holdfast.buckets, holdfast.turns, holdfast.slots, holdfast.rates, holdfast.guards, holdfast.queues, holdfast.schedules, holdfast.sweeps, holdfast.workers, holdfast.maintenance, holdfast.task_keys, holdfast.settled_deltas,
    holdfast.settled_minutes, holdfast.settled_totals, holdfast.samples
    to holdfast_worker;
grant insert on holdfast.task_history, holdfast.task_attempts to holdfast_worker;
grant usage on sequence holdfast.fence to holdfast_worker;
grant insert, update, delete on holdfast.tasks, holdfast.ready, holdfast.waiting, holdfast.buckets,
    holdfast.queues, holdfast.schedules, holdfast.turns
    to holdfast_api;
grant insert, update on holdfast.cancel_requests, holdfast.wakes to holdfast_api;
-- To share the lock of a row needs the right to change a column of it.
grant update (deadline_at) on holdfast.running to holdfast_api;
