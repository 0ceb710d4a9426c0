/** Now: whether all is well, in one line; then the figures that say so, and what changed. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { Problem } from "../api/client";
import { useLive } from "../api/live";
import { groups as allGroups, type Hours, me, type Now, now } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card } from "../parts/card";
import { Icon, type IconName } from "../parts/icon";
import { PauseKind } from "../parts/pausing";
import type { Family } from "../parts/state";
import { Table } from "../parts/table";
import { At } from "../parts/values";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { count, moment } from "../text/format";
import { changesOf, type Marked } from "./changes";
import { groupColumns } from "./failures";
import { Latest } from "./latest";
import { Ended, SPANS, Tiles } from "./now-figures";
import { Kinds, Queues } from "./now-tables";

export function NowPage() {
  const search = useSearch({ strict: false });
  const hours = (SPANS.find((span) => String(span) === search.hours) ?? 6) as Hours;
  const query = useQuery(now(hours));
  const away = query.error instanceof Problem && query.error.away;
  if (query.data !== undefined && away) return <Board seen={query.data} hours={hours} away />;
  return (
    <Asked query={query} rows={8}>
      {(seen) => <Board seen={seen} hours={hours} away={false} />}
    </Asked>
  );
}

function Board({ seen, hours, away }: { seen: Now; hours: Hours; away: boolean }) {
  const [pausing, setPausing] = useState<string | null>(null);
  const marked = changesOf(seen);
  return (
    <>
      <Verdict seen={seen} away={away} />
      <Tiles seen={seen} />
      <div className="columns">
        <div className="stack">
          <Ended seen={seen} hours={hours} marks={marked} />
          <Groups seen={seen} />
          <Latest />
        </div>
        <div className="stack">
          <Steps seen={seen} pause={setPausing} />
          <Changed marked={marked} />
        </div>
      </div>
      <Queues seen={seen} />
      <Kinds seen={seen} />
      {pausing !== null && (
        <PauseKind
          kind={pausing}
          waiting={seen.kinds.find((kind) => kind.name === pausing)}
          close={() => setPausing(null)}
        />
      )}
    </>
  );
}

const LOOKS: Record<string, [Family, IconName]> = {
  fine: ["green", "done"],
  degraded: ["amber", "warn"],
  broken: ["red", "cross"],
  unknown: ["grey", "database"],
};

function Verdict({ seen, away }: { seen: Now; away: boolean }) {
  const { text, language } = useText();
  const live = useLive();
  const { verdict } = seen;
  const level = away ? "unknown" : verdict.level;
  const [family, icon] = LOOKS[level] ?? ["grey", "warn"];
  const at = (value: string | null) =>
    value === null ? null : moment(new Date(value), new Date(seen.at), language, false);
  const since = away ? at(live.at === null ? seen.at : new Date(live.at).toISOString()) : at(verdict.since);
  const t = text.now;
  const head = {
    fine: since === null ? t.fineLong : t.fineSince(since),
    degraded: since === null ? t.degraded : t.degradedSince(since),
    broken: since === null ? t.broken : t.brokenSince(since),
    unknown: since === null ? t.unknown : t.unknownSince(since),
  }[level];
  const growth = seen.growthPerMinute;
  const fine = seen.kinds.filter((kind) => kind.failed <= 0.02 * (kind.completed + kind.failed)).length;
  return (
    <section className={`verdict family-${family}`} aria-label={t.verdict}>
      <Icon name={icon} />
      <div>
        <h1>
          <b className="level">{head}</b>{" "}
          {away ? t.unknownWhy(t.levels[verdict.level]) : said(seen, text.now)}
        </h1>
        {!away && verdict.level !== "fine" && (
          <dl>
            <div>
              <dt>{t.hurt} </dt>
              <dd>
                <Link className="number" to="/tasks" search={{ q: "state:failed" }}>
                  {t.hurtIs(count(seen.totals.failed, seen.totals.exact || seen.totals.countedAt !== null))}
                </Link>
              </dd>
            </div>
            {growth !== null && (
              <div>
                <dt>{t.trend} </dt>
                <dd>
                  {growth > 0 ? t.trendGrowing(growth) : growth < 0 ? t.trendDraining(growth) : t.trendEven}
                </dd>
              </div>
            )}
            <div>
              <dt>{t.elsewhere} </dt>
              <dd>{t.elsewhereIs(fine, seen.workers.alive)}</dd>
            </div>
          </dl>
        )}
      </div>
      {!away && verdict.fingerprint !== null && (
        <Link
          className="button primary"
          to="/failures/$fingerprint"
          params={{ fingerprint: verdict.fingerprint }}
        >
          {t.openGroup}
        </Link>
      )}
      {!away && verdict.fingerprint === null && verdict.queue !== null && (
        <Link className="button primary" to={verdict.cause === "no_worker" ? "/workers" : "/queues"}>
          {verdict.cause === "no_worker" ? t.openWorkers : t.openQueue}
        </Link>
      )}
    </section>
  );
}

/** The sentence of a verdict. */
function said({ verdict, database }: Now, t: ReturnType<typeof useText>["text"]["now"]): string {
  switch (verdict.cause) {
    case "no_worker":
      return t.noWorker(verdict.waiting ?? 0, verdict.oldestSeconds ?? 0);
    case "queue_unserved":
      return t.unserved(verdict.queue ?? "", verdict.waiting ?? 0);
    case "queue_growing":
      return t.growing(verdict.queue ?? "", verdict.waiting ?? 0, verdict.growthPerMinute ?? 0);
    case "failing":
      if (verdict.kind === null || verdict.title === null) return t.failingMany(verdict.failureRate ?? 0);
      return verdict.release === null
        ? t.failing(verdict.kind, verdict.title)
        : t.failingNew(verdict.kind, verdict.title, verdict.release);
    default:
      return t.fine(database.name);
  }
}

function Groups({ seen }: { seen: Now }) {
  const { text } = useText();
  const navigate = useNavigate();
  const columns = groupColumns(text, seen.at).filter(
    (column) => column.title !== text.columns.owner && column.title !== text.columns.releases,
  );
  return (
    <Card
      title={text.now.groups}
      meta={text.now.groupsMeta}
      tools={
        <Link className="link" to="/failures">
          {text.now.allFailures}
        </Link>
      }
    >
      {seen.groups.length === 0 ? (
        <Empty title={text.empty.groupsTitle}>{text.empty.groups}</Empty>
      ) : (
        <Table
          label={text.now.groups}
          rows={seen.groups}
          columns={columns}
          name={(group) => group.fingerprint}
          tall
          open={(group) =>
            void navigate({ to: "/failures/$fingerprint", params: { fingerprint: group.fingerprint } })
          }
        />
      )}
    </Card>
  );
}

function Steps({ seen, pause }: { seen: Now; pause: (kind: string) => void }) {
  const { text } = useText();
  const t = text.now;
  const { verdict } = seen;
  const all = useQuery(allGroups).data;
  const may = mayOperate(useQuery(me).data?.role);
  const group = all?.find((one) => one.fingerprint === verdict.fingerprint);
  return (
    <Card title={t.steps}>
      <ul className="steps pb-2">
        {verdict.fingerprint !== null && (
          <Step tag={t.readOnly} under={t.stepOpenWhy}>
            <Link
              className="act link"
              to="/failures/$fingerprint"
              params={{ fingerprint: verdict.fingerprint }}
            >
              {t.stepOpen}
            </Link>
          </Step>
        )}
        {verdict.kind !== null && (
          <Step tag={t.reversible} under={t.stepPauseWhy}>
            <button
              type="button"
              className="act link"
              disabled={!may}
              title={may ? undefined : text.common.needRole("operator")}
              onClick={() => pause(verdict.kind ?? "")}
            >
              {t.stepPause(verdict.kind)}
            </button>
          </Step>
        )}
        {verdict.fingerprint !== null && group !== undefined && (
          <Step tag={t.notYet} under={t.stepRedriveWait}>
            <span className="act mute">{t.stepRedrive(count(group.dead, group.dead <= 10_000))}</span>
          </Step>
        )}
        {verdict.fingerprint === null && seen.totals.failed > 0 && (
          <Step tag={t.readOnly} under={t.stepRedriveWhy}>
            <Link className="act link" to="/redrive/new">
              {t.stepRedrive(count(seen.totals.failed, seen.totals.exact || seen.totals.countedAt !== null))}
            </Link>
          </Step>
        )}
        <Step tag={t.readOnly} under={t.stepWorkersWhy}>
          <Link className="act link" to="/workers">
            {t.stepWorkers}
          </Link>
        </Step>
        <Step tag={t.readOnly} under={t.stepHealthWhy}>
          <Link className="act link" to="/health">
            {t.stepHealth}
          </Link>
        </Step>
      </ul>
    </Card>
  );
}

/** One step, what it does to the world, and what it is good for. */
function Step({ tag, under, children }: { tag: string; under: string; children: ReactNode }) {
  return (
    <li>
      {children}
      <span className="tag">{tag}</span>
      <span className="under">{under}</span>
    </li>
  );
}

function Changed({ marked }: { marked: readonly Marked[] }) {
  const { text } = useText();
  return (
    <Card
      title={text.now.changed}
      tools={
        <Link className="link" to="/audit">
          {text.nav.audit}
        </Link>
      }
    >
      {marked.length === 0 ? (
        <p className="body mute">{text.empty.changes}</p>
      ) : (
        <ul className="feed pb-2">
          {marked.map((mark) => (
            <li key={mark.key}>
              <At at={mark.at} seconds={false} />
              <span className={`badge${mark.filled ? " filled" : mark.label === null ? " none" : ""}`}>
                {mark.label ?? "·"}
              </span>
              <div>
                <p>{mark.link(text)}</p>
                {mark.under !== "" && <p className="under">{mark.under}</p>}
              </div>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
