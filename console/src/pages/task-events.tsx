/** What happened to a task, in words. */
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { entries, type Task } from "../api/queries";
import { Card } from "../parts/card";
import { Icon, type IconName } from "../parts/icon";
import { proven } from "../parts/proven";
import { At } from "../parts/values";
import { type Text, useText } from "../text";
import { duration, percent, tail } from "../text/format";

interface Event {
  key: string;
  at: string;
  icon: IconName;
  family: string;
  title: ReactNode;
  under?: string;
  aside?: string;
}

const GLYPHS: Record<string, IconName> = {
  retry: "cross",
  fail: "cross",
  snooze: "snooze",
  release: "back",
  reclaim: "lost",
  cancel: "slash",
  late: "late",
};

function eventsOf(task: Task, text: Text): Event[] {
  const t = text.task;
  const found: Event[] = [
    {
      key: "enqueued",
      at: task.enqueuedAt,
      icon: "plus",
      family: "line",
      title: t.enqueued,
      under: task.idempotencyKey === null ? undefined : t.withKey(task.idempotencyKey),
    },
  ];
  for (const attempt of task.attempts ?? []) {
    const by = attempt.workerName ?? (attempt.worker == null ? "–" : tail(attempt.worker));
    const bad = attempt.endedAs === "retry" || attempt.endedAs === "fail" || attempt.endedAs === "reclaim";
    if (attempt.startedAt !== null && attempt.endedAs !== "late")
      found.push({
        key: `claim-${attempt.fence}`,
        at: attempt.startedAt,
        icon: "running",
        family: "blue",
        title: t.claimedBy(by),
        under: t.fence(attempt.fence),
      });
    found.push({
      key: `${attempt.endedAs}-${attempt.fence}-${attempt.endedAt}`,
      at: attempt.endedAt,
      icon: GLYPHS[attempt.endedAs] ?? "ring",
      family: bad
        ? "red"
        : attempt.endedAs === "late"
          ? "amber"
          : attempt.endedAs === "snooze"
            ? "blue"
            : "line",
      title: (t.ended[attempt.endedAs] ?? (() => attempt.endedAs))(by),
      under: [
        attempt.errorCode,
        attempt.message,
        attempt.progress === null ? null : t.progress(percent(attempt.progress)),
      ]
        .filter(Boolean)
        .join(" · "),
      aside:
        attempt.startedAt === null
          ? undefined
          : duration((new Date(attempt.endedAt).getTime() - new Date(attempt.startedAt).getTime()) / 1_000),
    });
  }
  if (task.state === "running" && task.lastAttemptAt !== null)
    found.push({
      key: "running",
      at: task.lastAttemptAt,
      icon: "running",
      family: "blue",
      title: t.claimedBy(task.worker === null ? "–" : tail(task.worker)),
      under: task.leaseToken === null ? undefined : t.fence(task.leaseToken),
    });
  if (task.state === "completed" && task.finishedAt !== null)
    found.push({
      key: "completed",
      at: task.finishedAt,
      icon: "done",
      family: "green",
      title: text.state.completed,
      aside: task.executionSeconds === null ? undefined : duration(task.executionSeconds),
    });
  return found;
}

export function Events({ task }: { task: Task }) {
  const { text } = useText();
  const t = text.task;
  const [only, setOnly] = useState<"all" | "failures" | "operators">("all");
  const done = useQuery(entries({ taskId: task.id }, 1, 50)).data?.items ?? [];
  const own = eventsOf(task, text);
  const operated: Event[] = done.map((entry) => ({
    key: `${entry.chunk}-${entry.place}`,
    at: entry.at,
    icon: "audit",
    family: "line",
    title: (
      <>
        <b>{entry.actor}</b> <span className="mono">{entry.action}</span>
      </>
    ),
    under: [entry.reason, proven(entry, text)].filter(Boolean).join(" · "),
  }));
  const all = [...own, ...operated].toSorted((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
  const shown =
    only === "all"
      ? all
      : only === "failures"
        ? all.filter((event) => event.family === "red" || event.family === "amber")
        : operated;
  const parts = [
    ["all", text.common.all, all.length],
    [
      "failures",
      text.nav.failures,
      own.filter((event) => event.family === "red" || event.family === "amber").length,
    ],
    ["operators", t.operators, operated.length],
  ] as const;
  return (
    <Card
      title={t.events}
      meta={t.newestFirst}
      tools={
        // biome-ignore lint/a11y/useSemanticElements: a fieldset would want a legend
        <span className="segments" role="group" aria-label={t.events}>
          {parts.map(([key, name, many]) => (
            <button key={key} type="button" aria-pressed={only === key} onClick={() => setOnly(key)}>
              {name}
              <span className="count">{many}</span>
            </button>
          ))}
        </span>
      }
    >
      {shown.length === 0 ? (
        <p className="body mute">{t.noEvents}</p>
      ) : (
        <ol className="timeline pb-3">
          {shown.map((event) => (
            <li key={event.key} className={`family-${event.family}`}>
              <At at={event.at} />
              <span className="glyph">
                <Icon name={event.icon} />
              </span>
              <div>
                <p>{event.title}</p>
                {event.under && <p className="under">{event.under}</p>}
              </div>
              <span className="aside">{event.aside}</span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}
