/** One plan: how far it has come, what became of its tasks, and what can be done with it now. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { client, got } from "../api/client";
import { me, type Plan, type PlanDetail, plan as planQuery, useAct } from "../api/queries";
import { Asked } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { Rail, type Step } from "../parts/rail";
import { State } from "../parts/state";
import { useTell, useTellError } from "../parts/toast";
import { At, Copy } from "../parts/values";
import { mayOperate } from "../shell/roles";
import { type Text, useText } from "../text";
import { count, moment, tail } from "../text/format";
import { followed, Left, Outcome, Progress } from "./plan-outcome";
import { askedFor } from "./plans";

type Act = "approve" | "start" | "pause" | "resume" | "abort";

export function PlanPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(planQuery(id));
  return (
    <Asked query={query} rows={8}>
      {(detail) => <Detailed key={detail.plan.id} detail={detail} />}
    </Asked>
  );
}

function Detailed({ detail }: { detail: PlanDetail }) {
  const { text, language } = useText();
  const t = text.plans;
  const { plan } = detail;
  const [asking, setAsking] = useState<"approve" | "pause" | null>(null);
  // As many as there were when it was asked: what is typed must not change meanwhile.
  const [aborting, setAborting] = useState<number | null>(null);
  const act = useMove(plan);
  const whoever = useQuery(me).data;
  const may = mayOperate(whoever?.role);
  const waits = plan.shownState === "awaiting approval";
  const mine = whoever?.name === plan.createdBy;
  const left = plan.items - plan.sent - plan.skipped;
  return (
    <>
      <Head
        why={!may ? text.common.needRole("operator") : waits && mine ? t.notYourself : ""}
        crumb={
          <>
            <Link to="/redrive">{text.nav.redrive}</Link> / <span className="mono">{tail(plan.id)}</span>
          </>
        }
        title={
          <>
            {t.title(t.actions[plan.action] ?? plan.action, count(plan.items))}{" "}
            <State state={plan.shownState} />
          </>
        }
        under={plan.reason}
      >
        {waits && (
          <button
            type="button"
            className="button primary"
            disabled={!may || mine}
            onClick={() => setAsking("approve")}
          >
            <Icon name="approvals" />
            {t.approve(count(plan.items))}
          </button>
        )}
        {plan.shownState === "frozen" && (
          <button type="button" className="button primary" disabled={!may} onClick={() => act("start", "")}>
            <Icon name="play" />
            {plan.canary > 0 ? t.startCanary(count(plan.canary)) : t.start(count(plan.items))}
          </button>
        )}
        {plan.state === "running" && (
          <button type="button" className="button" disabled={!may} onClick={() => setAsking("pause")}>
            <Icon name="pause" />
            {t.pause}
          </button>
        )}
        {plan.state === "paused" && (
          <button type="button" className="button primary" disabled={!may} onClick={() => act("resume", "")}>
            <Icon name="play" />
            {t.resume(count(left))}
          </button>
        )}
        {["frozen", "running", "paused"].includes(plan.state) && (
          <button type="button" className="button danger" disabled={!may} onClick={() => setAborting(left)}>
            <Icon name="stop" />
            {t.abort(count(left))}
          </button>
        )}
      </Head>
      <div className="plan">
        <Rail
          label={t.rail}
          steps={stepsOf(plan, text, (at) => moment(new Date(at), new Date(), language, false))}
        />
        <div className="stack">
          {plan.endedWhy !== null && plan.endedWhy !== "" && (
            <p className={`note family-${plan.state === "stopped" ? "red" : "grey"}`}>
              <Icon name={plan.state === "stopped" ? "stop" : "info"} />
              {plan.endedWhy}
            </p>
          )}
          <Progress plan={plan} />
          <Outcome plan={plan} />
          <div className="columns even">
            <Frozen plan={plan} />
            <Left detail={detail} />
          </div>
        </div>
      </div>
      {asking === "approve" && (
        <Dialog
          title={t.approveAsk(count(plan.items))}
          effects={[
            ["approvals", t.approveEffect(plan.createdBy)],
            ["lock", t.approveHash(plan.setHash.slice(0, 12))],
          ]}
          act={t.approve(count(plan.items))}
          reason="wanted"
          onAct={(reason) => act("approve", reason)}
          onClose={() => setAsking(null)}
        />
      )}
      {asking === "pause" && (
        <Dialog
          title={t.pauseAsk}
          effects={[
            ["pause", t.pauseEffect],
            ["back", t.pauseBack],
          ]}
          act={t.pause}
          onAct={(reason) => act("pause", reason)}
          onClose={() => setAsking(null)}
        />
      )}
      {aborting !== null && (
        <Dialog
          title={t.abortAsk(count(aborting))}
          effects={[
            ["stop", t.abortEffect(count(aborting))],
            ["info", t.abortSent(count(plan.sent))],
            ["warn", t.abortForGood],
          ]}
          act={t.abort(count(aborting))}
          keep={t.keepGoing}
          danger
          typed={`abort ${aborting}`}
          onAct={(reason) => act("abort", reason)}
          onClose={() => setAborting(null)}
        />
      )}
    </>
  );
}

/** The moves of a plan; what was refused is told, and a dialog shows it too. */
function useMove(plan: Plan): (move: Act, reason: string) => Promise<unknown> {
  const { text } = useText();
  const tell = useTell();
  const tellError = useTellError();
  const params = { path: { plan_id: plan.id } };
  const act = useAct(
    async ({ move, reason }: { move: Act; reason: string }): Promise<unknown> => {
      const body = { reason };
      switch (move) {
        case "approve":
          return got(client.POST("/api/plans/{plan_id}/approve", { params, body }));
        case "start":
          return got(client.POST("/api/plans/{plan_id}/start", { params }));
        case "pause":
          return got(client.POST("/api/plans/{plan_id}/pause", { params, body }));
        case "resume":
          return got(client.POST("/api/plans/{plan_id}/resume", { params, body }));
        case "abort":
          return got(client.POST("/api/plans/{plan_id}/abort", { params, body }));
      }
    },
    (_, { move }) => tell({ good: true, title: text.plans.did[move] }),
  );
  return async (move, reason) => {
    try {
      return await act.mutateAsync({ move, reason });
    } catch (error) {
      if (move === "start" || move === "resume") tellError(error as Error);
      else throw error;
      return undefined;
    }
  };
}

function stepsOf(plan: Plan, text: Text, clock: (at: string) => string): Step[] {
  const t = text.plans;
  const begun = plan.startedAt !== null;
  const ended = plan.endedAt !== null;
  const canaried = plan.canary === 0 || followed(plan) >= plan.canary || plan.sent > plan.canary;
  const needs = plan.needsApproval && plan.approvedAt === null && !begun;
  const here = ended ? 7 : !begun ? (needs ? 4 : 5) : canaried ? 6 : 5;
  const facts: [string, string][] = [
    [t.steps.filter, t.conditions(askedFor(plan).length)],
    [t.steps.preview, t.outOf(Object.values(plan.excluded).reduce((sum, tasks) => sum + tasks, 0))],
    [t.steps.plan, t.frozenAt(clock(plan.createdAt))],
    [
      t.steps.approval,
      plan.approvedBy === null
        ? plan.needsApproval
          ? t.awaits
          : t.notNeeded
        : `${plan.approvedBy}, ${plan.approvedAt === null ? "" : clock(plan.approvedAt)}`,
    ],
    [
      t.steps.canary,
      plan.canary === 0 ? t.noCanary : t.ofCanary(Math.min(followed(plan), plan.canary), plan.canary),
    ],
    [t.steps.ramp, t.ofAll(count(plan.sent), count(plan.items))],
    [t.steps.outcome, plan.endedAt === null ? "" : clock(plan.endedAt)],
  ];
  return facts.map(([name, fact], place) => ({
    name,
    fact,
    at: place + 1 < here || (ended && place + 1 === 7) ? "done" : place + 1 === here ? "here" : "ahead",
  }));
}

function Frozen({ plan }: { plan: Plan }) {
  const { text } = useText();
  const t = text.plans;
  return (
    <Card
      title={t.steps.plan}
      meta={
        <>
          <At at={plan.createdAt} /> {text.common.by(plan.createdBy)}
        </>
      }
      footer={
        <Link className="link" to="/audit" search={{ q: `batch:${plan.id}` }}>
          {t.auditOf}
        </Link>
      }
    >
      <dl className="body facts">
        <dt>{t.steps.filter}</dt>
        <dd className="row">
          {askedFor(plan).length === 0
            ? t.everything
            : askedFor(plan).map(([name, value]) => (
                <span key={name} className="chip fixed">
                  <span className="name">{name}</span>
                  <span className="value">{value}</span>
                </span>
              ))}
        </dd>
        <dt>{t.hash}</dt>
        <dd className="mono">
          {plan.setHash.slice(0, 16)}… <Copy value={plan.setHash} />
        </dd>
        <dt>{text.common.reason}</dt>
        <dd>{plan.reason || text.common.none}</dd>
        <dt>{t.steps.approval}</dt>
        <dd>
          {plan.approvedBy === null ? (
            plan.needsApproval ? (
              t.awaits
            ) : (
              t.notNeeded
            )
          ) : (
            <>
              {plan.approvedBy}, <At at={plan.approvedAt} />
            </>
          )}
        </dd>
        <dt>{t.startedBy}</dt>
        <dd>
          {plan.startedBy === null ? (
            text.common.none
          ) : (
            <>
              {plan.startedBy}, <At at={plan.startedAt} />
            </>
          )}
        </dd>
        <dt>{t.expires}</dt>
        <dd>
          <At at={plan.expiresAt} />
        </dd>
      </dl>
    </Card>
  );
}
