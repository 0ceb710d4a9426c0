/** The life of a task as bands of time: one for its state, one for each worker that had it. */
import { useQuery } from "@tanstack/react-query";
import { type Task, workers } from "../api/queries";
import { Card } from "../parts/card";
import { useText } from "../text";
import { duration, moment, tail } from "../text/format";

interface Claim {
  lane: string;
  from: number;
  to: number;
  how: string;
}

const FILLS: Record<string, string> = {
  complete: "fill-green",
  running: "fill-blue",
  retry: "fill-failed",
  fail: "fill-failed",
  snooze: "fill-blue",
  release: "fill-grey",
  cancel: "fill-grey",
  reclaim: "lost",
  late: "late",
};

function claimsOf(task: Task, present: number, names: ReadonlyMap<string, string>): Claim[] {
  const name = (worker: string | null | undefined, known?: string | null) =>
    known ?? (worker == null ? "–" : (names.get(worker) ?? tail(worker)));
  const claims: Claim[] = (task.attempts ?? []).map((attempt) => ({
    lane: name(attempt.worker, attempt.workerName),
    from: new Date(attempt.startedAt ?? attempt.endedAt).getTime(),
    to: new Date(attempt.endedAt).getTime(),
    how: attempt.endedAs,
  }));
  if (task.lastAttemptAt !== null && (task.state === "running" || task.state === "completed")) {
    const from = new Date(task.lastAttemptAt).getTime();
    claims.push({
      lane: name(task.worker),
      from,
      to: task.finishedAt === null ? present : new Date(task.finishedAt).getTime(),
      how: task.state === "completed" ? "complete" : "running",
    });
  }
  return claims;
}

export function Lifeline({ task }: { task: Task }) {
  const { text, language } = useText();
  const present = Date.now();
  const known = useQuery(workers).data ?? [];
  const claims = claimsOf(task, present, new Map(known.map((worker) => [worker.id, worker.name])));
  const from = new Date(task.enqueuedAt).getTime();
  const to = Math.max(from + 1_000, task.finishedAt === null ? present : new Date(task.finishedAt).getTime());
  const share = (at: number) => `${Math.max(0, Math.min(100, ((at - from) / (to - from)) * 100))}%`;
  const wide = (claim: Claim) => `${Math.max(0.4, ((claim.to - claim.from) / (to - from)) * 100)}%`;
  const lanes = [...new Set(claims.map((claim) => claim.lane))];
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => from + part * (to - from));
  const t = text.task;
  return (
    <Card
      title={t.lifeline}
      meta={t.sinceEnqueued(duration((to - from) / 1_000))}
      tools={
        <span className="legend">
          <span>
            <i className="fill-done" />
            {text.state.queued}
          </span>
          <span>
            <i className="fill-blue" />
            {text.state.running}
          </span>
          <span>
            <i className="fill-failed" />
            {t.endedInFailure}
          </span>
        </span>
      }
    >
      <div className="lifeline" role="img" aria-label={t.lifelineText(claims.length, lanes.length)}>
        <span className="lane">{text.columns.state}</span>
        <span className="track">
          <i className="fill-done" style={{ left: 0, width: "100%" }} />
          {claims
            .filter((claim) => claim.how !== "late")
            .map((claim) => (
              <i
                key={`${claim.from}-${claim.how}`}
                className="fill-blue"
                style={{ left: share(claim.from), width: wide(claim) }}
                title={`${claim.how} · ${duration((claim.to - claim.from) / 1_000)}`}
              />
            ))}
        </span>
        {lanes.map((lane) => (
          <div key={lane} className="contents">
            <span className="lane clip" title={lane}>
              {lane}
            </span>
            <span className="track">
              {claims
                .filter((claim) => claim.lane === lane)
                .map((claim) => (
                  <i
                    key={`${claim.from}-${claim.how}`}
                    className={FILLS[claim.how] ?? "fill-grey"}
                    style={
                      claim.how === "late"
                        ? { left: share(claim.to) }
                        : { left: share(claim.from), width: wide(claim) }
                    }
                    title={`${claim.how} · ${duration((claim.to - claim.from) / 1_000)}`}
                  />
                ))}
            </span>
          </div>
        ))}
        <span />
        <span className="axis">
          {ticks.map((at) => (
            <span key={at} style={{ left: share(at) }}>
              {moment(new Date(at), new Date(present), language)}
            </span>
          ))}
        </span>
      </div>
    </Card>
  );
}
