/** What speaks for the cause of a group. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { type GroupDetail, letters, task } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card } from "../parts/card";
import { Chart } from "../parts/chart";
import { Stack } from "../parts/stack";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { At, Meter, TaskLink } from "../parts/values";
import { useText } from "../text";
import { count, percent } from "../text/format";

const DAYS = 7;

export function Shared({ detail }: { detail: GroupDetail }) {
  const { text } = useText();
  const t = text.failures;
  return (
    <Card title={t.common} meta={t.commonMeta}>
      {detail.traits.length === 0 ? (
        <p className="body mute">{t.commonNone}</p>
      ) : (
        <Table
          label={t.common}
          rows={detail.traits}
          name={(trait) => `${trait.field}=${trait.value}`}
          columns={[
            {
              title: text.columns.field,
              lead: true,
              breaks: true,
              cell: (trait) => (
                <>
                  <b className="mono">{trait.field}</b> {t.is} <span className="mono">{trait.value}</span>
                </>
              ),
            },
            {
              title: t.share,
              cell: (trait) => (
                <span className="pair">
                  <span>{t.failing}</span>
                  <Meter share={trait.ofGroup} fill="failed" bare />
                  <b className="text-right text-ink">{percent(trait.ofGroup)}</b>
                  <span>{text.state.completed}</span>
                  <Meter share={trait.ofSuccesses} fill="done" bare />
                  <span className="text-right">{percent(trait.ofSuccesses)}</span>
                </span>
              ),
            },
            {
              title: t.times,
              right: true,
              cell: (trait) =>
                trait.ofSuccesses === 0 ? t.onlyFailing : t.asOften(trait.ofGroup / trait.ofSuccesses),
            },
          ]}
        />
      )}
    </Card>
  );
}

export function Often({ detail }: { detail: GroupDetail }) {
  const { text } = useText();
  const t = text.failures;
  const until = Math.floor(Date.now() / 1_000);
  const total = detail.hours.reduce((sum, hour) => sum + hour.failures, 0);
  return (
    <Card title={t.perHour} meta={t.lastDays(DAYS)}>
      <div className="body">
        <Chart
          bars={detail.hours.map((hour) => ({
            at: new Date(hour.hour).getTime() / 1_000,
            failed: hour.failures * 60,
            retried: 0,
            completed: 0,
          }))}
          from={until - DAYS * 86_400}
          until={until}
          step={3_600}
          text={t.perHourText(count(total), DAYS)}
          height={180}
        />
      </div>
    </Card>
  );
}

export function Sample({ fingerprint, dead }: { fingerprint: string; dead: string }) {
  const { text } = useText();
  const navigate = useNavigate();
  const t = text.failures;
  const query = useQuery(letters({ group: fingerprint }, 10));
  const [place, setPlace] = useState(0);
  return (
    <Asked query={query}>
      {(page) => {
        const shown = page.items[Math.min(place, page.items.length - 1)];
        return (
          <>
            {shown !== undefined && (
              <Card
                title={t.sample}
                meta={
                  <>
                    <TaskLink id={shown.id} /> · {t.attempts(shown.attempts)} · <At at={shown.diedAt} />
                  </>
                }
                tools={
                  <>
                    <button
                      type="button"
                      className="button small"
                      disabled={place >= page.items.length - 1}
                      onClick={() => setPlace(place + 1)}
                    >
                      {text.common.older}
                    </button>
                    <button
                      type="button"
                      className="button small"
                      disabled={place === 0}
                      onClick={() => setPlace(place - 1)}
                    >
                      {t.newer}
                    </button>
                  </>
                }
              >
                <SampleStack id={shown.id} />
              </Card>
            )}
            <Card
              title={text.nav.tasks}
              meta={t.deadLetters(dead)}
              tools={
                <Link className="link" to="/tasks" search={{ q: `group:${fingerprint} state:failed` }}>
                  {t.asSearch}
                </Link>
              }
            >
              {page.items.length === 0 ? (
                <Empty title={text.empty.deadTitle}>{t.noneLeft}</Empty>
              ) : (
                <Table
                  label={text.nav.tasks}
                  rows={page.items}
                  name={(letter) => letter.id}
                  open={(letter) => void navigate({ to: "/tasks/$id", params: { id: letter.id } })}
                  columns={[
                    { title: text.columns.task, lead: true, cell: (letter) => <TaskLink id={letter.id} /> },
                    {
                      title: text.columns.subject,
                      breaks: true,
                      cell: (letter) => letter.subject ?? <span className="zero">–</span>,
                    },
                    { title: text.columns.state, cell: (letter) => <State state={letter.state} /> },
                    { title: text.columns.attempts, right: true, cell: (letter) => letter.attempts },
                    {
                      title: text.columns.failedAt,
                      right: true,
                      cell: (letter) => <At at={letter.diedAt} />,
                    },
                  ]}
                />
              )}
            </Card>
          </>
        );
      }}
    </Asked>
  );
}

function SampleStack({ id }: { id: string }) {
  const { text } = useText();
  const query = useQuery(task(id));
  return (
    <Asked query={query}>
      {(one) =>
        one.error == null ? (
          <p className="body mute">{text.failures.noStack}</p>
        ) : (
          <Stack stack={one.error.stack} message={one.error.message} framesOf={text.failures.frames} />
        )
      }
    </Asked>
  );
}
