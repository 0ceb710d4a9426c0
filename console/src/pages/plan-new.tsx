/** The wizard's first half: which dead letters, what a redrive of them would do, and with what care. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { client, got, type Shapes } from "../api/client";
import { type Filter, me, preview, useAct } from "../api/queries";
import { Asked } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { ConditionBar } from "../parts/conditions";
import { Icon } from "../parts/icon";
import { Rail } from "../parts/rail";
import { useTellError } from "../parts/toast";
import { type Conditions, parsed, type Qualifier, written } from "../shell/query";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { count } from "../text/format";
import { PAGE, type Preview, Previewed } from "./plan-preview";

const ALLOWED: readonly Qualifier[] = ["group", "kind", "queue", "subject", "trace", "code", "reason"];
export function filterOf(conditions: Conditions): Filter {
  return {
    group: conditions.group,
    jobKind: conditions.kind,
    queue: conditions.queue,
    subject: conditions.subject,
    traceId: conditions.trace,
    errorCode: conditions.code,
    deadReason: conditions.reason as Filter["deadReason"],
  };
}

export function NewPlanPage() {
  const { text } = useText();
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const conditions = parsed(search.q ?? "");
  const page = Math.max(1, Number(search.page) || 1);
  const filter = filterOf(conditions);
  const query = useQuery(preview(filter, page, PAGE));
  const go = (q: string, to = 1) =>
    void navigate({
      to: "/redrive/new",
      search: { q: q || undefined, page: to > 1 ? String(to) : undefined },
    });
  const asked = Object.values(conditions).filter(Boolean).length;
  const t = text.plans;
  const found = query.data;
  return (
    <>
      <Head crumb={text.nav.redrive} title={t.newTitle} />
      <div className="plan">
        <Rail
          label={t.rail}
          steps={[
            { name: t.steps.filter, fact: asked === 0 ? t.everything : t.conditions(asked), at: "done" },
            {
              name: t.steps.preview,
              fact: found === undefined ? "" : t.tasks(count(found.total, found.exact)),
              at: "here",
            },
            { name: t.steps.plan, fact: t.reasonPace, at: "ahead" },
            { name: t.steps.approval, fact: found?.needsApproval ? t.onePerson : t.notNeeded, at: "ahead" },
            { name: t.steps.canary, fact: "", at: "ahead" },
            { name: t.steps.ramp, fact: "", at: "ahead" },
            { name: t.steps.outcome, fact: "", at: "ahead" },
          ]}
        />
        <div className="stack">
          <ConditionBar
            id="filter"
            names={ALLOWED}
            bare="subject"
            conditions={conditions}
            change={(changed) => go(written(changed))}
          />
          <Card
            title={t.steps.preview}
            meta={t.readOnly}
            tools={
              <button type="button" className="button small" onClick={() => void query.refetch()}>
                <Icon name="redrive" small />
                {t.countAgain}
              </button>
            }
          >
            <Asked query={query} rows={8}>
              {(seen) => (
                <Previewed
                  key={`${search.q}-${page}`}
                  seen={seen}
                  filter={filter}
                  page={page}
                  turn={(to) => go(search.q ?? "", to)}
                />
              )}
            </Asked>
          </Card>
          {found !== undefined && found.total > 0 && (
            <Planned key={search.q ?? ""} seen={found} filter={filter} />
          )}
        </div>
      </div>
    </>
  );
}

function Planned({ seen, filter }: { seen: Preview; filter: Filter }) {
  const { text } = useText();
  const t = text.plans;
  const navigate = useNavigate();
  const tellError = useTellError();
  const may = mayOperate(useQuery(me).data?.role);
  const [reason, setReason] = useState("");
  const [canary, setCanary] = useState(String(Math.min(20, seen.total)));
  const [rate, setRate] = useState("");
  const [stop, setStop] = useState("0.1");
  const act = useAct((body: Shapes["NewPlan"]) => got(client.POST("/api/plans", { body })));
  const first = Number(canary);
  const tooMany = first > seen.total;
  const whole = /^\d+$/.test(canary.trim());
  const paced = rate.trim() === "" || Number(rate) > 0;
  const ready = may && reason.trim() !== "" && whole && !tooMany && paced && !act.isPending;
  async function freeze() {
    try {
      const made = await act.mutateAsync({
        ...filter,
        action: "redrive",
        reason: reason.trim(),
        canary: first,
        rate: rate.trim() === "" ? null : Number(rate) / 60,
        stopRatio: Number(stop),
        cancelled: false,
        limit: 10_000_000,
        expiresHours: 24,
      });
      void navigate({ to: "/redrive/$id", params: { id: made.id } });
    } catch (error) {
      tellError(error as Error);
    }
  }
  const label = seen.needsApproval
    ? t.freezeAsk(count(seen.total, seen.exact))
    : t.freeze(count(seen.total, seen.exact));
  return (
    <Card title={t.steps.plan} meta={t.planMeta}>
      <div className="body columns">
        <div className="stack">
          <div className="field">
            <label htmlFor="plan-reason">{text.common.reason}</label>
            <textarea
              id="plan-reason"
              className="input"
              rows={2}
              maxLength={2_000}
              value={reason}
              onChange={(event) => setReason(event.target.value)}
            />
            <span className="hint">{t.reasonHint}</span>
          </div>
          <div className="row items-start">
            <div className="field w-32">
              <label htmlFor="plan-canary">{t.steps.canary}</label>
              <input
                id="plan-canary"
                className="input"
                inputMode="numeric"
                aria-invalid={tooMany || !whole}
                value={canary}
                onChange={(event) => setCanary(event.target.value)}
              />
              {(tooMany || !whole) && <span className="wrong">{t.canaryMost(count(seen.total))}</span>}
            </div>
            <div className="field w-40">
              <label htmlFor="plan-rate">{t.rate}</label>
              <input
                id="plan-rate"
                className="input"
                inputMode="decimal"
                placeholder={t.rateNone}
                aria-invalid={!paced}
                value={rate}
                onChange={(event) => setRate(event.target.value)}
              />
              {!paced && <span className="wrong">{t.ratePositive}</span>}
            </div>
            <div className="field flex-1 min-w-[200px]">
              <label htmlFor="plan-stop">{t.stopWhen}</label>
              <select
                id="plan-stop"
                className="input"
                value={stop}
                onChange={(event) => setStop(event.target.value)}
              >
                {["0.01", "0.05", "0.1", "0.25", "1"].map((ratio) => (
                  <option key={ratio} value={ratio}>
                    {ratio === "1" ? t.stopNever : t.stopOver(Number(ratio) * 100)}
                  </option>
                ))}
              </select>
            </div>
          </div>
        </div>
        <div className="stack">
          {seen.needsApproval ? (
            <div className="note family-amber">
              <Icon name="approvals" />
              <div>
                <b>{t.needsOne}</b>
                <p>{t.needsWhy}</p>
              </div>
            </div>
          ) : (
            <div className="note family-grey">
              <Icon name="info" />
              <p>{t.noApproval}</p>
            </div>
          )}
          <button type="button" className="button primary" disabled={!ready} onClick={() => void freeze()}>
            <Icon name="lock" />
            {label}
          </button>
          <p className="why">
            {!may
              ? text.common.needRole("operator")
              : reason.trim() === ""
                ? text.common.needReason
                : t.nothingYet}
          </p>
        </div>
      </div>
    </Card>
  );
}
