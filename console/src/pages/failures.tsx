/** Failures: groups with one cause each, those that need somebody first. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type Group, groups } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { State } from "../parts/state";
import { type Column, Table, Two } from "../parts/table";
import { At, Count, Spark } from "../parts/values";
import { type Text, useText } from "../text";
import { count } from "../text/format";

const STATES = ["needs", "open", "regressed", "ignored", "resolved"] as const;
const NEW_HOURS = 24;
const EXACT = 10_000;

/** Whether a group belongs to what is chosen. */
function fits(group: Group, state: string | undefined): boolean {
  if (state === undefined || state === "all") return true;
  if (state === "needs") return group.state === "open" || group.state === "regressed";
  return group.state === state;
}

/** Worst first: regressed and growing before old. */
function worse(a: Group, b: Group): number {
  const rank = (group: Group) =>
    (group.state === "regressed" ? 2 : group.state === "open" ? 1 : 0) * 1e9 +
    group.lastHour * 1e4 +
    Math.min(group.dead, 9_999);
  return rank(b) - rank(a);
}

export function titleOf(group: { message?: string | null; errorCode: string }): string {
  return group.message || group.errorCode;
}

export function isNew(group: { firstSeenAt: string }, at: string): boolean {
  return new Date(at).getTime() - new Date(group.firstSeenAt).getTime() < NEW_HOURS * 3_600_000;
}

function releasesOf(group: Group): string {
  const first = group.releases[0];
  const last = group.releases.at(-1);
  if (first === undefined || last === undefined) return "–";
  return first === last ? first : `${first} – ${last}`;
}

export function groupColumns(text: Text, at: string): Column<Group>[] {
  const c = text.columns;
  return [
    { title: c.state, lead: true, cell: (group) => <State state={group.state} /> },
    {
      title: c.group,
      wide: true,
      cell: (group) => (
        <Two
          under={
            <>
              <span className="mono">{group.kind}</span> · {group.failureClass}
              {group.releases.length > 0 && <span className="mono"> · {group.releases.at(-1)}</span>}
              {isNew(group, at) && (
                <>
                  {" "}
                  <span className="tag new">{text.failures.isNew}</span>
                </>
              )}
            </>
          }
        >
          <Link
            className="font-medium"
            to="/failures/$fingerprint"
            params={{ fingerprint: group.fingerprint }}
            title={titleOf(group)}
          >
            {titleOf(group)}
          </Link>
        </Two>
      ),
    },
    {
      title: c.day,
      cell: (group) => (
        <Spark values={group.spark} calm={group.state === "ignored" || group.state === "resolved"} />
      ),
    },
    {
      title: c.dead,
      right: true,
      cell: (group) => (
        <Two under={text.failures.inHour(count(group.lastHour))}>
          <Link className="number" to="/tasks" search={{ q: `group:${group.fingerprint} state:failed` }}>
            <Count value={Math.min(group.dead, EXACT)} exact={group.dead <= EXACT} />
          </Link>
        </Two>
      ),
    },
    {
      title: c.lastSeen,
      right: true,
      cell: (group) => (
        <Two
          under={
            <>
              {text.failures.since} <At at={group.firstSeenAt} seconds={false} />
            </>
          }
        >
          <At at={group.lastSeenAt} seconds={false} />
        </Two>
      ),
    },
    {
      title: c.releases,
      cell: (group) => <span className="mono whitespace-nowrap">{releasesOf(group)}</span>,
    },
    {
      title: c.owner,
      cell: (group) =>
        group.owner === null ? <span className="mute">{text.common.none}</span> : group.owner,
    },
  ];
}

export function FailuresPage() {
  const { text } = useText();
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const query = useQuery(groups);
  const state = search.state ?? "needs";
  const kind = search.kind;
  const t = text.failures;
  return (
    <>
      <Head title={text.nav.failures} under={t.under} />
      <Asked query={query} rows={8}>
        {(all) => {
          const kinds = [...new Set(all.map((group) => group.kind))].toSorted();
          const shown = all
            .filter((group) => fits(group, state) && (kind === undefined || group.kind === kind))
            .toSorted(worse);
          const ofKind = all.filter((group) => kind === undefined || group.kind === kind);
          const tally = (one: string) => ofKind.filter((group) => fits(group, one)).length;
          return (
            <>
              <div className="row">
                <nav className="segments" aria-label={text.columns.state}>
                  {[...STATES, "all"].map((one) => (
                    <Link
                      key={one}
                      to="/failures"
                      search={{ ...search, state: one === "needs" ? undefined : one }}
                      activeOptions={{ exact: true }}
                      aria-current={state === one ? "page" : undefined}
                    >
                      {one === "needs" ? t.needs : one === "all" ? text.common.all : text.state[one]}
                      <span className="count">{tally(one)}</span>
                    </Link>
                  ))}
                </nav>
                <select
                  className="input w-auto"
                  aria-label={text.columns.kind}
                  value={kind ?? ""}
                  onChange={(event) =>
                    void navigate({
                      to: "/failures",
                      search: { ...search, kind: event.target.value || undefined },
                    })
                  }
                >
                  <option value="">{t.anyKind}</option>
                  {kinds.map((one) => (
                    <option key={one} value={one}>
                      {one}
                    </option>
                  ))}
                </select>
              </div>
              <Card
                footer={
                  shown.length > 0 ? (
                    <>
                      {t.footer(shown.length)}
                      <span className="push row only-wide">
                        <kbd>j</kbd> <kbd>k</kbd> {text.common.move} · <kbd>Enter</kbd> {text.common.openRow}
                      </span>
                    </>
                  ) : undefined
                }
              >
                {shown.length === 0 ? (
                  <Empty
                    title={
                      all.length === 0
                        ? text.empty.groupsTitle
                        : state === "needs"
                          ? t.noneNeeds
                          : text.empty.groupsState(text.state[state] ?? state)
                    }
                  >
                    {all.length === 0 ? (
                      text.empty.groups
                    ) : (
                      <div className="row">
                        <Link className="link" to="/failures" search={{ state: "all" }}>
                          {t.showAll(all.length)}
                        </Link>
                      </div>
                    )}
                  </Empty>
                ) : (
                  <Table
                    label={text.nav.failures}
                    rows={shown}
                    columns={groupColumns(text, new Date().toISOString())}
                    name={(group) => group.fingerprint}
                    tall
                    open={(group) =>
                      void navigate({
                        to: "/failures/$fingerprint",
                        params: { fingerprint: group.fingerprint },
                      })
                    }
                  />
                )}
              </Card>
            </>
          );
        }}
      </Asked>
    </>
  );
}
