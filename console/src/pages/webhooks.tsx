/** Customers' endpoints: which are well, which fail and since when. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { Shapes } from "../api/client";
import { endpoints } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { State } from "../parts/state";
import { Table, Two } from "../parts/table";
import { At } from "../parts/values";
import { useText } from "../text";

export type Endpoint = Shapes["Endpoint"];

export function stateOf(endpoint: Endpoint): string {
  return endpoint.state === "active" ? "enabled" : endpoint.state === "failing" ? "open" : "disabled";
}

export function WebhooksPage() {
  const { text } = useText();
  const c = text.columns;
  const navigate = useNavigate();
  const query = useQuery(endpoints);
  return (
    <>
      <Head title={text.nav.webhooks} under={text.webhooks.under} />
      <Card>
        <Asked query={query}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="webhooks" title={text.empty.webhooksTitle}>
                {text.empty.webhooks}
              </Empty>
            ) : (
              <Table
                label={text.nav.webhooks}
                rows={all}
                name={(one) => one.id}
                tall
                open={(one) => void navigate({ to: "/webhooks/$id", params: { id: one.id } })}
                columns={[
                  {
                    title: c.state,
                    lead: true,
                    cell: (one) =>
                      one.state === "failing" ? (
                        <span className="pill family-red">{text.webhooks.failing}</span>
                      ) : (
                        <State state={stateOf(one)} />
                      ),
                  },
                  {
                    title: c.endpoint,
                    wide: true,
                    cell: (one) => (
                      <Two under={one.description || text.common.none}>
                        <Link className="mono" to="/webhooks/$id" params={{ id: one.id }}>
                          {one.url}
                        </Link>
                      </Two>
                    ),
                  },
                  {
                    title: c.events,
                    breaks: true,
                    cell: (one) =>
                      one.events.length === 0 ? (
                        <span className="mute">{text.webhooks.allEvents}</span>
                      ) : (
                        <span className="mono">{one.events.join(", ")}</span>
                      ),
                  },
                  {
                    title: text.webhooks.failures,
                    right: true,
                    cell: (one) =>
                      one.failures === 0 ? (
                        <span className="zero">0</span>
                      ) : (
                        <Two
                          under={
                            <>
                              {text.failures.since} <At at={one.failingSince} seconds={false} />
                            </>
                          }
                        >
                          {one.failures}
                        </Two>
                      ),
                  },
                  {
                    title: text.webhooks.created,
                    right: true,
                    cell: (one) => (
                      <Two under={one.createdBy}>
                        <At at={one.createdAt} seconds={false} />
                      </Two>
                    ),
                  },
                ]}
              />
            )
          }
        </Asked>
      </Card>
    </>
  );
}
