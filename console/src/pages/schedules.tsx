/** Schedules: when each fires next, and whether it is held. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { client, got, type Shapes } from "../api/client";
import { me, schedules, useAct } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Dialog } from "../parts/dialog";
import { PauseButton } from "../parts/pausing";
import { State } from "../parts/state";
import { Table, Two } from "../parts/table";
import { useTell, useTellError } from "../parts/toast";
import { At } from "../parts/values";
import { written } from "../shell/query";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";

type Schedule = Shapes["ScheduleView"];

export function SchedulesPage() {
  const { text } = useText();
  const t = text.schedules;
  const c = text.columns;
  const query = useQuery(schedules);
  const may = mayOperate(useQuery(me).data?.role);
  const tell = useTell();
  const tellError = useTellError();
  const [pausing, setPausing] = useState<Schedule | null>(null);
  const [running, setRunning] = useState<Schedule | null>(null);
  const params = (name: string) => ({ params: { path: { name } } });
  const resume = useAct(
    (name: string) => got(client.POST("/api/schedules/{name}/resume", params(name))),
    (_, name) => tell({ good: true, title: text.pausing.resumed(name) }),
  );
  const pause = useAct(({ name, reason }: { name: string; reason: string }) =>
    got(client.POST("/api/schedules/{name}/pause", { ...params(name), body: { reason } })),
  );
  const run = useAct(
    (name: string) => got(client.POST("/api/schedules/{name}/run", params(name))),
    (answer, name) => tell({ good: answer.done, title: answer.done ? t.ran(name) : t.ranAlready }),
  );
  return (
    <>
      <Head title={text.nav.schedules} under={t.under} why={may ? "" : text.common.needRole("operator")} />
      <Card>
        <Asked query={query}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="schedules" title={text.empty.schedulesTitle}>
                <p className="mono">{text.empty.schedules}</p>
              </Empty>
            ) : (
              <Table
                label={text.nav.schedules}
                rows={all}
                name={(one) => one.name}
                tall
                columns={[
                  {
                    title: c.schedule,
                    lead: true,
                    breaks: true,
                    cell: (one) => (
                      <Two
                        under={
                          one.pausedAt === null
                            ? ""
                            : text.queues.pausedBy(one.pausedBy ?? "", one.pauseReason ?? "")
                        }
                      >
                        <span className="mono">{one.name}</span>{" "}
                        {one.pausedAt !== null && <State state="paused" />}
                      </Two>
                    ),
                  },
                  {
                    title: c.kind,
                    cell: (one) => (
                      <Link className="mono" to="/tasks" search={{ q: written({ kind: one.kind }) }}>
                        {one.kind}
                      </Link>
                    ),
                  },
                  {
                    title: c.expression,
                    cell: (one) => (
                      <Two under={one.zone}>
                        <span className="mono">{one.expression}</span>
                      </Two>
                    ),
                  },
                  { title: c.last, right: true, cell: (one) => <At at={one.lastTickAt} /> },
                  {
                    title: c.next,
                    right: true,
                    cell: (one) =>
                      one.pausedAt === null ? <At at={one.nextAt} /> : <span className="zero">–</span>,
                  },
                  {
                    title: text.queues.act,
                    right: true,
                    cell: (one) => (
                      <span className="row justify-end flex-nowrap">
                        <button
                          type="button"
                          className="button small"
                          disabled={!may}
                          onClick={() => setRunning(one)}
                        >
                          {t.run}
                        </button>
                        <PauseButton
                          paused={one.pausedAt !== null}
                          may={may}
                          pause={() => setPausing(one)}
                          resume={() => void resume.mutateAsync(one.name).catch(tellError)}
                        />
                      </span>
                    ),
                  },
                ]}
              />
            )
          }
        </Asked>
      </Card>
      {pausing !== null && (
        <Dialog
          title={text.pausing.title(pausing.name)}
          effects={[
            ["pause", t.pauseEffect],
            ["back", text.pausing.back],
          ]}
          act={text.pausing.act(pausing.name)}
          onAct={async (reason) => {
            await pause.mutateAsync({ name: pausing.name, reason });
            tell({
              good: true,
              title: text.pausing.paused(pausing.name),
              undo: () => void resume.mutateAsync(pausing.name).catch(tellError),
            });
          }}
          onClose={() => setPausing(null)}
        />
      )}
      {running !== null && (
        <Dialog
          title={t.runAsk(running.name)}
          effects={[["plus", t.runEffect]]}
          act={t.run}
          reason="none"
          onAct={() => run.mutateAsync(running.name)}
          onClose={() => setRunning(null)}
        />
      )}
    </>
  );
}
