/** Every plan there was, with what came of it. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { type Plan, plans } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Icon } from "../parts/icon";
import { State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { At } from "../parts/values";
import { type Text, useText } from "../text";
import { count, tail } from "../text/format";

/** What the plan's filter asks for, in the words of the search. */
export function askedFor(plan: Plan): [string, string][] {
  const names: Record<string, string> = { fingerprint: "group", reason: "reason", code: "code" };
  return Object.entries(plan.filter)
    .filter(([name, value]) => name !== "states" && value !== null)
    .map(([name, value]) => [
      names[name] ?? name,
      Array.isArray(value) ? (name === "ids" ? String(value.length) : value.join(", ")) : String(value),
    ]);
}

export function planColumns(text: Text): Column<Plan>[] {
  const c = text.columns;
  return [
    {
      title: c.plan,
      lead: true,
      cell: (plan) => (
        <Link className="id" to="/redrive/$id" params={{ id: plan.id }} title={plan.id}>
          {tail(plan.id)}
        </Link>
      ),
    },
    { title: c.state, cell: (plan) => <State state={plan.shownState} /> },
    {
      title: c.what,
      wide: true,
      cell: (plan) => (
        <div className="two">
          <span>{plan.reason || text.plans.noReason}</span>
          <span className="under">
            {text.plans.actions[plan.action] ?? plan.action}{" "}
            <span className="mono">
              {askedFor(plan)
                .map(([name, value]) => `${name}:${value}`)
                .join(" ")}
            </span>
          </span>
        </div>
      ),
    },
    { title: c.by, cell: (plan) => plan.createdBy },
    {
      title: c.approvedBy,
      cell: (plan) =>
        plan.approvedBy ?? (
          <span className="mute">{plan.needsApproval ? text.plans.notGiven : text.plans.notNeeded}</span>
        ),
    },
    { title: c.tasks, right: true, cell: (plan) => count(plan.items) },
    {
      title: c.outcome,
      cell: (plan) => (
        <span className="whitespace-nowrap">
          {text.plans.outcomeShort(
            count(plan.succeeded),
            count(plan.failedSame + plan.failedAnew),
            count(plan.sent),
          )}
        </span>
      ),
    },
    { title: c.started, right: true, cell: (plan) => <At at={plan.startedAt} seconds={false} /> },
  ];
}

/** Plans by row, each opened by its page. */
export function PlanTable({
  label,
  plans,
  columns,
}: {
  label: string;
  plans: readonly Plan[];
  columns: readonly Column<Plan>[];
}) {
  const navigate = useNavigate();
  return (
    <Table
      label={label}
      rows={plans}
      columns={columns}
      name={(plan) => plan.id}
      tall
      open={(plan) => void navigate({ to: "/redrive/$id", params: { id: plan.id } })}
    />
  );
}

export function PlansPage() {
  const { text } = useText();
  const query = useQuery(plans);
  return (
    <>
      <Head title={text.nav.redrive} under={text.plans.under}>
        <Link className="button primary" to="/redrive/new">
          <Icon name="plus" />
          {text.plans.create}
        </Link>
      </Head>
      <Card title={text.plans.all} meta={text.plans.allMeta}>
        <Asked query={query} rows={6}>
          {(all) =>
            all.length === 0 ? (
              <Empty icon="redrive" title={text.empty.plansTitle}>
                {text.empty.plans}
              </Empty>
            ) : (
              <PlanTable label={text.plans.all} plans={all} columns={planColumns(text)} />
            )
          }
        </Asked>
      </Card>
    </>
  );
}
