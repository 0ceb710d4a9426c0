/** The figures of Now: tiles, what ended over time, queues, kinds. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Hours, Now } from "../api/queries";
import { Card } from "../parts/card";
import { Chart } from "../parts/chart";
import { Icon } from "../parts/icon";
import { useText } from "../text";
import { count, duration, moment, percent, perMinute } from "../text/format";
import type { Marked } from "./changes";

export const SPANS: readonly Hours[] = [1, 6, 24, 168];

function Tile({
  label,
  to,
  search,
  look,
  figure,
  under,
}: {
  label: string;
  to: string;
  search?: Record<string, string>;
  look?: "bad" | "warn" | false;
  figure: ReactNode;
  under: string;
}) {
  return (
    <Link className={`tile${look ? ` ${look}` : ""}`} to={to} search={search ?? {}}>
      <span className="label">
        {look && <Icon name="warn" small />}
        {label}
      </span>
      <div className="figure">{figure}</div>
      <div className="under" title={under}>
        {under}
      </div>
    </Link>
  );
}

export function Tiles({ seen }: { seen: Now }) {
  const { text, language } = useText();
  const t = text.now;
  const present = new Date(seen.at);
  const oldest = seen.queues
    .filter((queue) => queue.oldestAt !== null && queue.pausedAt === null)
    .toSorted((a, b) => ((a.oldestAt ?? "") < (b.oldestAt ?? "") ? -1 : 1))[0];
  const age =
    oldest === undefined
      ? null
      : (present.getTime() - new Date(oldest.oldestAt ?? seen.at).getTime()) / 1_000;
  const usualAge = oldest === undefined ? null : (seen.trends[oldest.name]?.usualOldestSeconds ?? null);
  const { usual, workers } = seen;
  const growing = (seen.growthPerMinute ?? 0) > 0 && (seen.clearSeconds === null || seen.clearSeconds > 60);
  const failing = seen.verdict.cause === "failing";
  const manyDead =
    usual.failedHourUsual !== null && usual.failedHour >= 5 && usual.failedHour > 3 * usual.failedHourUsual;
  return (
    <section className="card tiles" aria-label={t.figures}>
      <Tile
        label={t.oldest}
        to="/queues"
        look={age !== null && age > Math.max(60, 10 * (usualAge ?? 0)) && "bad"}
        figure={age === null ? "–" : duration(Math.max(0, age))}
        under={
          oldest === undefined ? t.clearsEmpty : usualAge === null ? oldest.name : t.usual(duration(usualAge))
        }
      />
      <Tile
        label={t.clear}
        to="/queues"
        look={growing && "bad"}
        figure={
          growing
            ? t.clearGrowing
            : !seen.clearSeconds
              ? "–"
              : seen.clearSeconds < 60
                ? t.underMinute
                : duration(seen.clearSeconds)
        }
        under={
          growing
            ? perMinute(seen.growthPerMinute ?? 0, true)
            : seen.clearSeconds === null
              ? t.clearUnknown
              : seen.clearSeconds === 0
                ? t.clearsEmpty
                : t.rateNow(seen.completedRate)
        }
      />
      <Tile
        label={t.failureRate}
        to="/failures"
        look={failing && "bad"}
        figure={usual.failureRate === null ? "–" : percent(usual.failureRate)}
        under={
          usual.failureRateYesterday === null
            ? t.noYesterday
            : t.yesterday(percent(usual.failureRateYesterday))
        }
      />
      <Tile
        label={t.newDead}
        to="/tasks"
        search={{ q: "state:failed" }}
        look={(manyDead || (failing && usual.failedHour > 0)) && "bad"}
        figure={count(usual.failedHour)}
        under={
          usual.failedHourUsual === null
            ? t.inHour
            : t.inHourUsual(
                usual.failedHourUsual < 10 ? usual.failedHourUsual.toFixed(1) : count(usual.failedHourUsual),
              )
        }
      />
      <Tile
        label={t.workers}
        to="/workers"
        look={
          seen.verdict.cause === "no_worker" ? "bad" : (workers.alive === 0 || workers.lost > 0) && "warn"
        }
        figure={
          <>
            {workers.alive}
            <small> {t.alive}</small>
          </>
        }
        under={
          workers.lastLostAt === null
            ? t.noneLost
            : t.lostAt(workers.lost, moment(new Date(workers.lastLostAt), present, language, false))
        }
      />
      <Tile label={t.late} to="/workers" figure={count(usual.refusedHour)} under={t.inHour} />
    </section>
  );
}

export function Ended({ seen, hours, marks }: { seen: Now; hours: Hours; marks: readonly Marked[] }) {
  const { text } = useText();
  const navigate = useNavigate();
  const search = useSearch({ strict: false });
  const t = text.now;
  const until = Math.floor(new Date(seen.at).getTime() / 1_000);
  const sum = (member: "completed" | "retried" | "failed") =>
    count(seen.series.reduce((total, one) => total + one[member], 0));
  const said =
    seen.series.length === 0 ? t.chartEmpty : t.chartText(sum("completed"), sum("retried"), sum("failed"));
  return (
    <Card
      title={t.chart}
      meta={
        <span className="legend">
          <span>
            <i className="fill-failed" />
            {t.failed}
          </span>
          <span>
            <i className="fill-retried" />
            {t.retried}
          </span>
          <span>
            <i className="fill-done" />
            {t.completed}
          </span>
        </span>
      }
      tools={
        // biome-ignore lint/a11y/useSemanticElements: a fieldset would want a legend
        <span className="segments" role="group" aria-label={t.span}>
          {SPANS.map((span) => (
            <button
              key={span}
              type="button"
              aria-pressed={span === hours}
              onClick={() =>
                void navigate({
                  to: "/",
                  search: { ...search, hours: span === 6 ? undefined : String(span) },
                })
              }
            >
              {t.spans[span]}
            </button>
          ))}
        </span>
      }
    >
      <div className="body">
        <Chart
          bars={seen.series.map((one) => ({ ...one, at: new Date(one.at).getTime() / 1_000 }))}
          from={until - hours * 3_600}
          until={until}
          step={seen.stepSeconds}
          marks={marks
            .filter((mark) => mark.label !== null)
            .map((mark) => ({
              at: new Date(mark.at).getTime() / 1_000,
              label: mark.label ?? "",
              title: mark.title(text),
              filled: mark.filled,
            }))}
          since={
            seen.verdict.level !== "fine" && seen.verdict.since !== null
              ? new Date(seen.verdict.since).getTime() / 1_000
              : null
          }
          text={said}
        />
        <p className="mute text-sm">{said}</p>
      </div>
    </Card>
  );
}
