/** What is known of a task. */
import { Link } from "@tanstack/react-router";
import type { Task } from "../api/queries";
import { Card } from "../parts/card";
import { Stack } from "../parts/stack";
import { familyOf } from "../parts/state";
import { At, Copy, Meter } from "../parts/values";
import { written } from "../shell/query";
import { useText } from "../text";
import { percent } from "../text/format";

export function Counters({ task }: { task: Task }) {
  const { text } = useText();
  const t = text.task;
  const rows: [string, number, number | null, string][] = [
    [t.failures, task.failures, task.maxAttempts, "failed"],
    [t.crashes, task.crashes, 3, "retried"],
    [t.polls, task.polls, null, "grey"],
  ];
  return (
    <Card title={t.counters}>
      <dl className="body facts items-center">
        {rows.map(([name, value, most, fill]) => (
          <div key={name} className="contents">
            <dt>{name}</dt>
            <dd className="row">
              {most !== null && (
                <span className="flex-1">
                  <Meter share={value / most} fill={fill} />
                </span>
              )}
              <span className={value === 0 ? "zero" : undefined}>
                {most === null ? value : t.of(value, most)}
              </span>
            </dd>
          </div>
        ))}
        {task.progress !== null && (
          <>
            <dt>{t.progressName}</dt>
            <dd>{percent(task.progress)}</dd>
          </>
        )}
      </dl>
    </Card>
  );
}

export function LastError({ task }: { task: Task }) {
  const { text } = useText();
  const error = task.error;
  if (error == null) return null;
  return (
    <Card
      title={text.task.lastError}
      meta={<span className="tag">{error.failureClass}</span>}
      tools={
        task.fingerprint == null ? undefined : (
          <Link className="link" to="/failures/$fingerprint" params={{ fingerprint: task.fingerprint }}>
            {text.columns.group}
          </Link>
        )
      }
    >
      <Stack
        stack={error.stack}
        message={`${error.code}: ${error.message}`}
        framesOf={text.failures.frames}
      />
    </Card>
  );
}

export function Facts({ task }: { task: Task }) {
  const { text } = useText();
  const t = text.task;
  const none = <span className="mute">{text.common.none}</span>;
  return (
    <Card title={text.failures.facts}>
      <dl className="body facts">
        <dt>{text.columns.subject}</dt>
        <dd>
          {task.subject === null ? (
            none
          ) : (
            <Link className="link" to="/tasks" search={{ q: written({ subject: task.subject }) }}>
              {task.subject}
            </Link>
          )}
        </dd>
        <dt>{t.key}</dt>
        <dd className="mono">{task.idempotencyKey ?? none}</dd>
        <dt>{t.trace}</dt>
        <dd className="mono">
          {task.traceId === null ? (
            none
          ) : (
            <>
              <Link className="link" to="/tasks" search={{ q: written({ trace: task.traceId }) }}>
                {task.traceId}
              </Link>{" "}
              <Copy value={task.traceId} />
            </>
          )}
        </dd>
        <dt>{t.priority}</dt>
        <dd>{task.priority}</dd>
        <dt>{text.columns.nextAt}</dt>
        <dd>
          <At at={task.nextAttemptAt} />
        </dd>
        {task.leaseExpiresAt != null && (
          <>
            <dt>{text.columns.lease}</dt>
            <dd>
              <At at={task.leaseExpiresAt} />
            </dd>
          </>
        )}
        {task.deadReason !== null && (
          <>
            <dt>{t.deadReason}</dt>
            <dd className={`mono family-${familyOf("failed")}`}>{task.deadReason}</dd>
          </>
        )}
        {task.reason !== null && (
          <>
            <dt>{text.common.reason}</dt>
            <dd>{task.reason}</dd>
          </>
        )}
      </dl>
    </Card>
  );
}
