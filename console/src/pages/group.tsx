/** One group: what its tasks share, how often it is met, a sample, who looks after it, and what can be done. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { type GroupDetail, group as groupQuery, me } from "../api/queries";
import { Asked } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Icon } from "../parts/icon";
import { PauseKind } from "../parts/pausing";
import { State } from "../parts/state";
import { At, Copy } from "../parts/values";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { count } from "../text/format";
import { isNew, titleOf } from "./failures";
import { Often, Sample, Shared } from "./group-evidence";
import { Noted, Saying } from "./group-words";

const EXACT = 10_000;
// A group that was met within this time still fails.
const FAILS_MINUTES = 5;
export function GroupPage() {
  const { fingerprint } = useParams({ strict: false }) as { fingerprint: string };
  const query = useQuery(groupQuery(fingerprint));
  return (
    <Asked query={query} rows={8}>
      {(detail) => <Detailed key={detail.group.fingerprint} detail={detail} />}
    </Asked>
  );
}

type Asking = "ignore" | "resolve" | "reopen" | "pause" | null;

function Detailed({ detail }: { detail: GroupDetail }) {
  const { text } = useText();
  const t = text.failures;
  const [asking, setAsking] = useState<Asking>(null);
  const may = mayOperate(useQuery(me).data?.role);
  const { group } = detail;
  const fails =
    group.lastSeenAt !== null && Date.now() - new Date(group.lastSeenAt).getTime() < FAILS_MINUTES * 60_000;
  const dead = count(Math.min(group.dead, EXACT), group.dead <= EXACT);
  const spoken = group.state === "ignored" || group.state === "resolved";
  const close = () => setAsking(null);
  return (
    <>
      <Head
        why={
          !may
            ? text.common.needRole("operator")
            : group.dead === 0
              ? t.nothingDead
              : fails
                ? t.stillFails
                : ""
        }
        crumb={
          <>
            <Link to="/failures">{text.nav.failures}</Link> /{" "}
            <span className="mono">{group.fingerprint}</span>
          </>
        }
        title={titleOf(group)}
        under={
          <span className="row">
            <State state={group.state} />
            {isNew(group, new Date().toISOString()) && <span className="tag new">{t.isNew}</span>}
            <span className="mono">{group.kind}</span> · {group.failureClass} ·{" "}
            <span className="mono">{group.errorCode}</span>
          </span>
        }
      >
        {spoken ? (
          <button type="button" className="button" disabled={!may} onClick={() => setAsking("reopen")}>
            {t.reopen}
          </button>
        ) : (
          <>
            <button type="button" className="button" disabled={!may} onClick={() => setAsking("ignore")}>
              {t.ignore}
            </button>
            <button type="button" className="button" disabled={!may} onClick={() => setAsking("resolve")}>
              {t.resolve}
            </button>
          </>
        )}
        <button type="button" className="button" disabled={!may} onClick={() => setAsking("pause")}>
          {text.now.stepPause(group.kind)}
        </button>
        {group.dead === 0 || fails ? (
          <span
            className="button"
            aria-disabled="true"
            title={group.dead === 0 ? t.nothingDead : t.stillFails}
          >
            <Icon name="redrive" />
            {t.redrive(dead)}
          </span>
        ) : (
          <Link className="button primary" to="/redrive/new" search={{ q: `group:${group.fingerprint}` }}>
            <Icon name="redrive" />
            {t.redrive(dead)}
          </Link>
        )}
      </Head>
      <div className="columns">
        <div className="stack">
          <Shared detail={detail} />
          <Often detail={detail} />
          <Sample fingerprint={group.fingerprint} dead={dead} />
        </div>
        <div className="stack">
          <Facts detail={detail} />
          <Noted detail={detail} may={may} />
        </div>
      </div>
      {asking === "pause" && <PauseKind kind={group.kind} close={close} />}
      {asking !== null && asking !== "pause" && <Saying act={asking} detail={detail} close={close} />}
    </>
  );
}

function Facts({ detail }: { detail: GroupDetail }) {
  const { text } = useText();
  const t = text.failures;
  const { group } = detail;
  return (
    <Card title={t.facts}>
      <dl className="body facts">
        <dt>{t.first}</dt>
        <dd>
          <At at={group.firstSeenAt} />
        </dd>
        <dt>{text.columns.lastSeen}</dt>
        <dd>
          <At at={group.lastSeenAt} />
        </dd>
        <dt>{t.failuresAll}</dt>
        <dd>{count(group.failures)}</dd>
        <dt>{t.lastHour}</dt>
        <dd>{count(group.lastHour)}</dd>
        <dt>{text.columns.releases}</dt>
        <dd className="row">
          {group.releases.length === 0 ? (
            <span className="mute">{t.noRelease}</span>
          ) : (
            group.releases.map((release) => (
              <span key={release} className="tag mono">
                {release}
              </span>
            ))
          )}
        </dd>
        <dt>{t.versions}</dt>
        <dd className="mono">{detail.versions.length === 0 ? "–" : detail.versions.join(", ")}</dd>
        <dt>{t.fingerprint}</dt>
        <dd className="mono">
          {group.fingerprint} <Copy value={group.fingerprint} />
        </dd>
        {group.changedBy !== null && (
          <>
            <dt>{t.changed}</dt>
            <dd>
              {group.changedBy}, <At at={group.changedAt} />
            </dd>
          </>
        )}
        {group.ignoredUntil !== null && (
          <>
            <dt>{t.ignoredUntil}</dt>
            <dd>
              <At at={group.ignoredUntil} />
            </dd>
          </>
        )}
      </dl>
    </Card>
  );
}
