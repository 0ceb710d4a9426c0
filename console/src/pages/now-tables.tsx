/** Queues and kinds, as they stand now. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { me, type Now } from "../api/queries";
import { Empty } from "../parts/asked";
import { Card } from "../parts/card";
import { useResume } from "../parts/pausing";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { Count, Counted } from "../parts/values";
import { written } from "../shell/query";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { duration, percent } from "../text/format";

export function Queues({ seen }: { seen: Now }) {
  const { text } = useText();
  const t = text.now;
  const present = new Date(seen.at).getTime();
  const age = (at: string | null) => (at === null ? -1 : present - new Date(at).getTime());
  const queues = seen.queues.toSorted((a, b) => age(b.oldestAt) - age(a.oldestAt)).slice(0, 10);
  if (queues.length === 0) return null;
  return (
    <Card title={t.queues} meta={t.queuesMeta}>
      <div className="queues">
        {queues.map((queue) => {
          const growth = seen.trends[queue.name]?.growthPerMinute ?? null;
          const waiting = queue.ready + queue.behind;
          return (
            <Link key={queue.name} to="/queues">
              <span className="mono clip block">{queue.name}</span>
              <dl>
                <dt>{t.oldestOf}</dt>
                <dd className="big">
                  {queue.oldestAt === null ? "–" : duration(Math.max(0, age(queue.oldestAt) / 1_000))}
                </dd>
                <dt>{t.ready}</dt>
                <dd>
                  <Count value={waiting} exact={queue.exact || queue.countedAt !== null} />
                </dd>
                <dt>{t.clears}</dt>
                <dd className={growth !== null && growth > 0 && waiting > 0 ? "text-red" : undefined}>
                  {queue.pausedAt !== null
                    ? text.state.paused
                    : waiting === 0
                      ? t.clearsEmpty
                      : growth === null
                        ? "–"
                        : growth > 0
                          ? t.trendGrowing(growth)
                          : growth === 0
                            ? t.trendEven
                            : (waiting / -growth) * 60 < 60
                              ? t.underMinute
                              : duration((waiting / -growth) * 60)}
                </dd>
              </dl>
            </Link>
          );
        })}
      </div>
    </Card>
  );
}

export function Kinds({ seen }: { seen: Now }) {
  const { text } = useText();
  const may = mayOperate(useQuery(me).data?.role);
  const resume = useResume();
  const c = text.columns;
  const words = (state: string, kind: string) => ({ q: written({ kind, state }) });
  return (
    <Card title={text.now.kinds} meta={text.now.kindsMeta}>
      {seen.kinds.length === 0 ? (
        <Empty icon="ring" title={text.empty.tasksNone} />
      ) : (
        <Table
          label={text.now.kinds}
          rows={seen.kinds}
          name={(kind) => kind.name}
          columns={[
            {
              title: c.kind,
              lead: true,
              cell: (kind) => (
                <>
                  <Link className="mono" to="/tasks" search={{ q: written({ kind: kind.name }) }}>
                    {kind.name}
                  </Link>
                  {kind.pausedAt !== null && (
                    <p className="row text-sm text-ink-3">
                      <State state="paused" bare />
                      {text.queues.pausedBy(kind.pausedBy ?? "", kind.pauseReason ?? "")}
                      <button
                        type="button"
                        className="button small"
                        disabled={!may}
                        onClick={() => resume("kinds", kind.name)}
                      >
                        {text.queues.resume}
                      </button>
                    </p>
                  )}
                </>
              ),
            },
            {
              title: c.ready,
              right: true,
              cell: (kind) => (
                <Counted
                  value={kind.ready}
                  exact={kind.exact || kind.countedAt !== null}
                  to="/tasks"
                  search={words("queued", kind.name)}
                />
              ),
            },
            {
              title: c.scheduled,
              right: true,
              cell: (kind) => (
                <Counted value={kind.scheduled} to="/tasks" search={words("queued", kind.name)} />
              ),
            },
            {
              title: c.running,
              right: true,
              cell: (kind) => (
                <Counted value={kind.running} to="/tasks" search={words("running", kind.name)} />
              ),
            },
            {
              title: c.dead,
              right: true,
              cell: (kind) => <Counted value={kind.dead} to="/tasks" search={words("failed", kind.name)} />,
            },
            {
              title: c.completedHour,
              right: true,
              cell: (kind) => (
                <Counted value={kind.completed} to="/tasks" search={words("completed", kind.name)} />
              ),
            },
            {
              title: c.retriedHour,
              right: true,
              cell: (kind) => (
                <Counted value={kind.retried} to="/tasks" search={{ q: written({ kind: kind.name }) }} />
              ),
            },
            {
              title: c.failedHour,
              right: true,
              cell: (kind) => <Counted value={kind.failed} to="/tasks" search={words("failed", kind.name)} />,
            },
            {
              title: c.failureRate,
              right: true,
              cell: (kind) => {
                const ended = kind.completed + kind.failed;
                const rate = ended === 0 ? null : kind.failed / ended;
                return rate === null ? (
                  <span className="zero">–</span>
                ) : (
                  <span className={rate > 0.05 ? "text-red font-bold" : rate === 0 ? "zero" : undefined}>
                    {percent(rate)}
                  </span>
                );
              },
            },
            {
              title: c.meanRun,
              right: true,
              cell: (kind) =>
                kind.meanSeconds === null ? <span className="zero">–</span> : duration(kind.meanSeconds),
            },
          ]}
        />
      )}
    </Card>
  );
}
