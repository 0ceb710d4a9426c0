/** Queues and limits: what waits where, who may run how much at once, and what is paused. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Shapes } from "../api/client";
import { type Limit, limits, me, queues } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Icon } from "../parts/icon";
import { PauseButton, PauseQueue, useResume } from "../parts/pausing";
import { State } from "../parts/state";
import { Table, Two } from "../parts/table";
import { At, Count, Counted, Meter } from "../parts/values";
import { written } from "../shell/query";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { duration } from "../text/format";
import { SetLimit } from "./limit-set";

type Queue = Shapes["QueueView"];

export function QueuesPage() {
  const { text } = useText();
  const c = text.columns;
  const waiting = useQuery(queues);
  const limited = useQuery(limits);
  const may = mayOperate(useQuery(me).data?.role);
  const resume = useResume();
  const [pausing, setPausing] = useState<Queue | null>(null);
  const [limiting, setLimiting] = useState<Limit | "new" | null>(null);
  const age = (queue: Queue) =>
    queue.oldestAt === null ? null : Math.max(0, (Date.now() - new Date(queue.oldestAt).getTime()) / 1_000);
  const exact = (queue: Queue) => queue.exact || queue.countedAt !== null;
  return (
    <>
      <Head
        title={text.nav.queues}
        under={text.queues.under}
        why={may ? "" : text.common.needRole("operator")}
      />
      <Card title={text.now.queues}>
        <Asked query={waiting}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="queues" title={text.empty.queuesTitle}>
                {text.empty.queues}
              </Empty>
            ) : (
              <Table
                label={text.now.queues}
                rows={all}
                name={(queue) => queue.name}
                columns={[
                  {
                    title: c.queue,
                    lead: true,
                    breaks: true,
                    cell: (queue) => (
                      <>
                        <Link className="mono" to="/tasks" search={{ q: written({ queue: queue.name }) }}>
                          {queue.name}
                        </Link>
                        {queue.pausedAt !== null && (
                          <p className="text-sm text-ink-3">
                            <State state="paused" bare />{" "}
                            {text.queues.pausedBy(queue.pausedBy ?? "", queue.pauseReason ?? "")}{" "}
                            {queue.pausedUntil !== null && (
                              <>
                                {text.queues.untilWord} <At at={queue.pausedUntil} seconds={false} />
                              </>
                            )}
                          </p>
                        )}
                      </>
                    ),
                  },
                  {
                    title: c.oldest,
                    right: true,
                    cell: (queue) => {
                      const old = age(queue);
                      return old === null ? <span className="zero">–</span> : duration(old);
                    },
                  },
                  {
                    title: c.ready,
                    right: true,
                    cell: (queue) => (
                      <Counted
                        value={queue.ready}
                        exact={exact(queue)}
                        to="/tasks"
                        search={{ q: written({ queue: queue.name, state: "queued" }) }}
                      />
                    ),
                  },
                  {
                    title: c.behind,
                    right: true,
                    cell: (queue) => (
                      <Counted
                        value={queue.behind}
                        exact={exact(queue)}
                        to="/tasks"
                        search={{ q: written({ queue: queue.name, state: "queued" }) }}
                      />
                    ),
                  },
                  {
                    title: c.scheduled,
                    right: true,
                    cell: (queue) => (
                      <Counted
                        value={queue.scheduled}
                        exact={exact(queue)}
                        to="/tasks"
                        search={{ q: written({ queue: queue.name, state: "queued" }) }}
                      />
                    ),
                  },
                  {
                    title: c.running,
                    right: true,
                    cell: (queue) => (
                      <Counted
                        value={queue.running}
                        to="/tasks"
                        search={{ q: written({ queue: queue.name, state: "running" }) }}
                      />
                    ),
                  },
                  {
                    title: c.workers,
                    right: true,
                    cell: (queue) =>
                      queue.workers === 0 && queue.ready > 0 ? (
                        <b className="text-red">0</b>
                      ) : (
                        <Count value={queue.workers} />
                      ),
                  },
                  {
                    title: text.queues.act,
                    right: true,
                    cell: (queue) => (
                      <PauseButton
                        paused={queue.pausedAt !== null}
                        may={may}
                        pause={() => setPausing(queue)}
                        resume={() => resume("queues", queue.name)}
                      />
                    ),
                  },
                ]}
              />
            )
          }
        </Asked>
      </Card>
      <Card
        title={text.queues.limits}
        meta={text.queues.limitsMeta}
        tools={
          <button type="button" className="button small" disabled={!may} onClick={() => setLimiting("new")}>
            <Icon name="plus" small />
            {text.queues.newLimit}
          </button>
        }
      >
        <Asked query={limited}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="queues" title={text.empty.limitsTitle}>
                {text.empty.limits}
              </Empty>
            ) : (
              <Table
                label={text.queues.limits}
                rows={all}
                name={(limit) => limit.name}
                tall
                columns={[
                  {
                    title: c.limit,
                    lead: true,
                    breaks: true,
                    cell: (limit) => <span className="mono">{limit.name}</span>,
                  },
                  {
                    title: c.used,
                    cell: (limit) =>
                      limit.runningMax === null ? (
                        <Count value={limit.running} />
                      ) : (
                        <span className="row flex-nowrap min-w-[120px]">
                          <span className="flex-1">
                            <Meter
                              share={limit.running / Math.max(1, limit.runningMax)}
                              fill={limit.running >= limit.runningMax ? "retried" : "grey"}
                            />
                          </span>
                          {text.task.of(limit.running, limit.runningMax)}
                        </span>
                      ),
                  },
                  {
                    title: c.rate,
                    cell: (limit) =>
                      limit.rateCount === null ? (
                        <span className="zero">–</span>
                      ) : (
                        text.queues.rate(limit.rateCount, limit.rateSeconds ?? 1, limit.rateBurst ?? 0)
                      ),
                  },
                  { title: c.waiting, right: true, cell: (limit) => <Count value={limit.waiting} /> },
                  { title: c.holds, breaks: true, cell: (limit) => holdersOf(limit) },
                  {
                    title: c.setBy,
                    cell: (limit) => <Two under={<At at={limit.setAt} seconds={false} />}>{limit.setBy}</Two>,
                  },
                  {
                    title: text.queues.act,
                    right: true,
                    cell: (limit) => (
                      <button
                        type="button"
                        className="button small"
                        disabled={!may}
                        onClick={() => setLimiting(limit)}
                      >
                        {text.queues.change}
                      </button>
                    ),
                  },
                ]}
              />
            )
          }
        </Asked>
      </Card>
      {pausing !== null && (
        <PauseQueue
          queue={pausing.name}
          waiting={pausing.ready + pausing.behind}
          running={pausing.running}
          close={() => setPausing(null)}
        />
      )}
      {limiting !== null && (
        <SetLimit limit={limiting === "new" ? null : limiting} close={() => setLimiting(null)} />
      )}
    </>
  );
}

function holdersOf(limit: Limit): string {
  const holders = Object.entries(limit.holders ?? {});
  if (holders.length === 0) return "–";
  const shown = holders.slice(0, 3).map(([name, slots]) => `${name}: ${slots}`);
  return holders.length > 3 ? `${shown.join(", ")} +${holders.length - 3}` : shown.join(", ");
}
