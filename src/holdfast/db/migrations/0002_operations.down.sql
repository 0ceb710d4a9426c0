-- It takes a row of the audit, and so stands in the way of its table.
drop function if exists holdfast.audit_hash;
drop table holdfast.plan_outcomes, holdfast.plan_skips, holdfast.plan_items, holdfast.plans;
drop table holdfast.audit_pruned, holdfast.audit_seals, holdfast.audit_unsealed, holdfast.audit_log;
drop function holdfast.refuse_change, holdfast.refuse_removal;
drop sequence holdfast.audit_chunk;
drop table holdfast.failure_hours, holdfast.failure_deltas, holdfast.failure_groups, holdfast.task_edits;
alter table holdfast.task_attempts drop column fingerprint;
drop index holdfast.tasks_marked_fingerprint;
alter table holdfast.tasks
    drop column fingerprint,
    drop column replay_count,
    drop column last_replayed_at,
    drop column last_replayed_by,
    drop column last_replay_reason;
