/** One endpoint: its facts, the log of its deliveries, and sending again. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { client, got } from "../api/client";
import { me } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { State } from "../parts/state";
import { Table, Two } from "../parts/table";
import { At, Copy, TaskLink } from "../parts/values";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { duration } from "../text/format";
import { Acting, type Asking } from "./endpoint-acts";
import { type Endpoint, stateOf } from "./webhooks";

const PAGE = 50;

export function EndpointPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery({
    queryKey: ["endpoint", id],
    queryFn: () =>
      got(client.GET("/api/webhooks/endpoints/{endpoint_id}", { params: { path: { endpoint_id: id } } })),
  });
  return <Asked query={query}>{(endpoint) => <Detailed key={endpoint.id} endpoint={endpoint} />}</Asked>;
}

function Detailed({ endpoint }: { endpoint: Endpoint }) {
  const { text } = useText();
  const t = text.webhooks;
  const search = useSearch({ strict: false });
  const may = mayOperate(useQuery(me).data?.role);
  const [asking, setAsking] = useState<Asking | null>(null);
  const failed = search.failed === "true";
  const log = useQuery({
    queryKey: ["attempts", endpoint.id, failed, search.before],
    queryFn: () =>
      got(
        client.GET("/api/webhooks/endpoints/{endpoint_id}/attempts", {
          params: {
            path: { endpoint_id: endpoint.id },
            query: { failed, before: search.before, limit: PAGE },
          },
        }),
      ),
  });
  const c = text.columns;
  return (
    <>
      <Head
        why={may ? "" : text.common.needRole("operator")}
        crumb={<Link to="/webhooks">{text.nav.webhooks}</Link>}
        title={
          <>
            <span className="mono">{endpoint.url}</span>{" "}
            {endpoint.state === "failing" ? (
              <span className="pill family-red">{t.failing}</span>
            ) : (
              <State state={stateOf(endpoint)} />
            )}
          </>
        }
        under={endpoint.description}
      >
        {endpoint.disabledAt === null ? (
          <button
            type="button"
            className="button danger"
            disabled={!may}
            onClick={() => setAsking({ what: "disable" })}
          >
            {t.disable}
          </button>
        ) : (
          <button
            type="button"
            className="button"
            disabled={!may}
            onClick={() => setAsking({ what: "enable" })}
          >
            {t.enable}
          </button>
        )}
        <button
          type="button"
          className="button primary"
          disabled={!may}
          onClick={() => setAsking({ what: "since" })}
        >
          {t.resendSince}
        </button>
      </Head>
      <div className="columns">
        <Card
          title={t.deliveries}
          tools={
            // biome-ignore lint/a11y/useSemanticElements: a fieldset would want a legend
            <span className="segments" role="group" aria-label={t.deliveries}>
              <Link
                to="/webhooks/$id"
                params={{ id: endpoint.id }}
                search={{}}
                activeOptions={{ exact: true }}
                aria-current={failed ? undefined : "page"}
              >
                {text.common.all}
              </Link>
              <Link
                to="/webhooks/$id"
                params={{ id: endpoint.id }}
                search={{ failed: "true" }}
                aria-current={failed ? "page" : undefined}
              >
                {t.notTaken}
              </Link>
            </span>
          }
          footer={
            log.data !== undefined && log.data.length === PAGE ? (
              <Link
                className="button small push"
                to="/webhooks/$id"
                params={{ id: endpoint.id }}
                search={{ ...search, before: log.data.at(-1)?.at }}
              >
                {text.common.older}
              </Link>
            ) : undefined
          }
        >
          <Asked query={log}>
            {(attempts) =>
              attempts.length === 0 ? (
                <Empty icon="webhooks" title={text.empty.attemptsTitle}>
                  {text.empty.attempts}
                </Empty>
              ) : (
                <Table
                  label={t.deliveries}
                  rows={attempts}
                  name={(one) => `${one.taskId}-${one.attempt}`}
                  tall
                  columns={[
                    { title: c.at, lead: true, cell: (one) => <At at={one.at} /> },
                    {
                      title: c.event,
                      breaks: true,
                      cell: (one) => (
                        <Two under={<TaskLink id={one.taskId} />}>
                          <span className="mono">{one.type}</span>
                        </Two>
                      ),
                    },
                    {
                      title: c.answered,
                      breaks: true,
                      cell: (one) =>
                        one.code === null ? (
                          <span className="pill family-green">{one.status}</span>
                        ) : (
                          <Two under={one.message ?? one.answerHead ?? ""}>
                            <span className="pill family-red">{one.status ?? one.code}</span>
                          </Two>
                        ),
                    },
                    { title: c.attempts, right: true, cell: (one) => one.attempt },
                    { title: c.took, right: true, cell: (one) => duration(one.tookSeconds) },
                    {
                      title: text.queues.act,
                      right: true,
                      cell: (one) => (
                        <button
                          type="button"
                          className="button small"
                          disabled={!may}
                          onClick={() => setAsking({ what: "resend", attempt: one })}
                        >
                          {t.resend}
                        </button>
                      ),
                    },
                  ]}
                />
              )
            }
          </Asked>
        </Card>
        <Card title={text.failures.facts}>
          <dl className="body facts">
            <dt>Id</dt>
            <dd className="mono">
              {endpoint.id} <Copy value={endpoint.id} />
            </dd>
            <dt>{c.events}</dt>
            <dd>{endpoint.events.length === 0 ? t.allEvents : endpoint.events.join(", ")}</dd>
            <dt>{t.order}</dt>
            <dd>{endpoint.inOrder ? t.inOrder : t.anyOrder}</dd>
            <dt>{c.atOnce}</dt>
            <dd>{endpoint.runningMax ?? text.common.none}</dd>
            <dt>{t.keys}</dt>
            <dd className="mono">{endpoint.keys.join(", ")}</dd>
            <dt>{t.created}</dt>
            <dd>
              <At at={endpoint.createdAt} /> {text.common.by(endpoint.createdBy)}
            </dd>
            {endpoint.failingSince !== null && (
              <>
                <dt>{t.failingSince}</dt>
                <dd>
                  <At at={endpoint.failingSince} />, {t.failuresInRow(endpoint.failures)}
                </dd>
              </>
            )}
            {endpoint.leftAloneUntil !== null && (
              <>
                <dt>{t.leftAlone}</dt>
                <dd>
                  <At at={endpoint.leftAloneUntil} />
                </dd>
              </>
            )}
            {endpoint.disabledAt !== null && (
              <>
                <dt>{text.state.disabled}</dt>
                <dd>
                  <At at={endpoint.disabledAt} />: {endpoint.disabledBecause}
                </dd>
              </>
            )}
          </dl>
        </Card>
      </div>
      {asking !== null && <Acting asking={asking} endpoint={endpoint} close={() => setAsking(null)} />}
    </>
  );
}
