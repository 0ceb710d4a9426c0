/** How far a plan has come, and what became of its tasks. */
import type { Plan, PlanDetail } from "../api/queries";
import { Card } from "../parts/card";
import { Icon, type IconName } from "../parts/icon";
import { Table } from "../parts/table";
import { Meter } from "../parts/values";
import { useText } from "../text";
import { count, percent } from "../text/format";

export function followed(plan: Plan): number {
  return plan.succeeded + plan.failedSame + plan.failedAnew + plan.cancelled + plan.gone;
}

export function Progress({ plan }: { plan: Plan }) {
  const { text } = useText();
  const t = text.plans;
  const ended = followed(plan);
  const failed = plan.failedSame + plan.failedAnew;
  const ratio = ended === 0 ? 0 : failed / ended;
  const over = ratio > plan.stopRatio;
  return (
    <Card title={t.progress} meta={plan.rate === null ? t.asFast : t.pace(count(plan.rate * 60))}>
      <div className="body columns">
        <div className="stack">
          <div>
            <div className="figure text-2xl font-bold">
              {percent(plan.items === 0 ? 0 : (ended + plan.skipped) / plan.items)}{" "}
              <small>{t.finishedShare(count(ended), count(plan.items))}</small>
            </div>
            <span
              className="meter"
              role="progressbar"
              aria-label={t.progress}
              aria-valuemin={0}
              aria-valuemax={plan.items}
              aria-valuenow={ended}
            >
              <i
                className="fill-green"
                style={{ width: `${(plan.succeeded / Math.max(1, plan.items)) * 100}%` }}
              />
              {failed > 0 && (
                <i className="fill-failed" style={{ width: `${(failed / plan.items) * 100}%` }} />
              )}
              {plan.sent > ended && (
                <i className="fill-blue" style={{ width: `${((plan.sent - ended) / plan.items) * 100}%` }} />
              )}
            </span>
          </div>
        </div>
        <div className="limit">
          <b>{t.stopRule}</b>
          <span className="track">
            <i
              className={over ? "over" : undefined}
              style={{ width: `${Math.min(100, (ratio / Math.max(plan.stopRatio * 2, 0.01)) * 100)}%` }}
            />
            <b style={{ left: "50%" }} />
          </span>
          <span className="text-sm">
            <b>{percent(ratio)}</b> {t.failNow} ·{" "}
            <span className="mute">
              {plan.stopRatio >= 1 ? t.stopNever : t.stopsOver(plan.stopRatio * 100)}
            </span>
          </span>
        </div>
      </div>
    </Card>
  );
}

export function Outcome({ plan }: { plan: Plan }) {
  const { text } = useText();
  const t = text.plans;
  const running = plan.sent - followed(plan);
  const left = plan.items - plan.sent - plan.skipped;
  const rows: [string, IconName, string, string, number][] = [
    ["succeeded", "done", "green", t.succeeded, plan.succeeded],
    ["failedSame", "cross", "red", t.failedSame, plan.failedSame],
    ["failedAnew", "warn", "amber", t.failedAnew, plan.failedAnew],
    ["cancelled", "slash", "line", text.state.cancelled ?? "", plan.cancelled],
    ["gone", "trash", "line", t.gone, plan.gone],
    ["skipped", "ignored", "line", t.skippedOnes, plan.skipped],
    ["running", "running", "blue", t.atWork, running],
    ["left", "ring", "grey", t.waiting, left],
  ];
  const fills: Record<string, string> = {
    green: "green",
    red: "failed",
    amber: "retried",
    blue: "blue",
    grey: "none",
    line: "grey",
  };
  return (
    <Card title={plan.endedAt === null ? t.soFar : t.steps.outcome}>
      <ul className="body outcome">
        {rows
          .filter(
            ([key, , , , tasks]) =>
              tasks > 0 || ["succeeded", "failedSame", "failedAnew", "left"].includes(key),
          )
          .map(([key, icon, family, name, tasks]) => (
            <li key={key} className={`family-${family}`}>
              <span className="pill bare">
                <Icon name={icon} small />
                {name}
              </span>
              <Meter share={tasks / Math.max(1, plan.items)} fill={fills[family]} bare />
              <span className="count">{count(tasks)}</span>
              <span className="share">{percent(tasks / Math.max(1, plan.items))}</span>
            </li>
          ))}
      </ul>
    </Card>
  );
}

export function Left({ detail }: { detail: PlanDetail }) {
  const { text } = useText();
  const t = text.plans;
  const rows = [
    ...Object.entries(detail.plan.excluded).map(([why, tasks]) => [t.atFreezing, why, tasks] as const),
    ...Object.entries(detail.drift).map(([why, tasks]) => [t.sinceThen, why, tasks] as const),
    ...Object.entries(detail.skips).map(([why, tasks]) => [t.whenSent, why, tasks] as const),
  ];
  return (
    <Card title={t.leftAlone}>
      {rows.length === 0 ? (
        <p className="body mute">{t.noneLeftAlone}</p>
      ) : (
        <Table
          label={t.leftAlone}
          rows={rows}
          name={([when, why]) => `${when}${why}`}
          columns={[
            { title: t.when, lead: true, cell: ([when]) => when },
            { title: text.columns.why, breaks: true, cell: ([, why]) => why },
            { title: text.columns.tasks, right: true, cell: ([, , tasks]) => count(tasks) },
          ]}
        />
      )}
    </Card>
  );
}
