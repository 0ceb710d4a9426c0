/** Workers: who lives, who was lost, what each serves and holds. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Shapes } from "../api/client";
import { now, workers } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { State } from "../parts/state";
import { Table, Two } from "../parts/table";
import { At, Counted } from "../parts/values";
import { useText } from "../text";

type Worker = Shapes["WorkerView"];

/** By the database's clock, which is the one that decides. */
function stateOf(worker: Worker, at: string | undefined): string {
  const over = at !== undefined && worker.leaseExpiresAt < at;
  return worker.lostAt !== null || over ? "lost" : "alive";
}

export function WorkersPage() {
  const { text } = useText();
  const c = text.columns;
  const query = useQuery(workers);
  const seen = useQuery(now(6)).data;
  return (
    <>
      <Head title={text.nav.workers} under={text.workers.under} />
      <Card>
        <Asked query={query}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="workers" title={text.empty.workersTitle}>
                <p className="mono">{text.empty.workers}</p>
              </Empty>
            ) : (
              <Table
                label={text.nav.workers}
                rows={all}
                name={(worker) => worker.id}
                tall
                columns={[
                  {
                    title: c.state,
                    lead: true,
                    cell: (worker) => <State state={stateOf(worker, seen?.at)} />,
                  },
                  {
                    title: c.worker,
                    breaks: true,
                    cell: (worker) => (
                      <Two under={<span className="mono">{worker.id.slice(-12)}</span>}>
                        {worker.name} {worker.outside && <span className="tag">{text.workers.outside}</span>}
                      </Two>
                    ),
                  },
                  {
                    title: c.release,
                    cell: (worker) =>
                      worker.release === null ? (
                        <span className="zero">–</span>
                      ) : (
                        <span className="mono">{worker.release}</span>
                      ),
                  },
                  {
                    title: c.serves,
                    wide: true,
                    cell: (worker) => (
                      <Two
                        under={
                          <span title={worker.kinds.join(", ")}>
                            {worker.kinds.length === 0 ? text.workers.anyKind : worker.kinds.join(", ")}
                          </span>
                        }
                      >
                        {worker.queues.join(", ")}
                      </Two>
                    ),
                  },
                  {
                    title: c.holds,
                    right: true,
                    cell: (worker) => (
                      <Counted value={worker.running} to="/tasks" search={{ q: "state:running" }} />
                    ),
                  },
                  { title: c.entered, right: true, cell: (worker) => <At at={worker.registeredAt} /> },
                  {
                    title: c.lease,
                    right: true,
                    cell: (worker) =>
                      worker.lostAt === null ? (
                        <At at={worker.leaseExpiresAt} />
                      ) : (
                        <Two under={text.state.lost}>
                          <At at={worker.lostAt} />
                        </Two>
                      ),
                  },
                ]}
              />
            )
          }
        </Asked>
      </Card>
      <p className="why">
        {text.workers.help}{" "}
        <Link className="link" to="/health">
          {text.nav.health}
        </Link>
      </p>
    </>
  );
}
