-- Reads for people; nothing here writes.

-- name: show
-- One task, from the facts or from history.
select
    s.id::text, s.kind, s.queue, s.state, s.priority, s.payload::text, s.result::text, s.subject, s.trace_id, s.key,
    s.attempts, s.failures, s.crashes, s.polls, s.rate_limits, s.max_attempts, s.fence, s.worker::text,
    s.bucket, s.enqueued_at, s.next_attempt_at, s.last_attempt_at, s.finished_at,
    s.execution_seconds, s.dead_reason, s.mark_reason, s.failure_class, s.error_code,
    s.error_message, s.error_stack, s.failed_at
from holdfast.task_states s
where s.id = %(id)s::uuid;
