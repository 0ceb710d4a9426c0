/** The audit: who did what, to what, and why; exported, and pruned after a dry run. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { root } from "../api/client";
import { type Entry, type EntryQuery, entries } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { ConditionBar } from "../parts/conditions";
import { Icon } from "../parts/icon";
import { proven } from "../parts/proven";
import { Table } from "../parts/table";
import { At, TaskLink } from "../parts/values";
import { type Named, phrase, words } from "../shell/query";
import { useText } from "../text";
import { count, tail } from "../text/format";
import { PruneCard } from "./prune";

const PAGE = 50;
const NAMES = ["action", "actor", "subject", "kind", "trace", "batch", "task"] as const;
type Name = (typeof NAMES)[number];
const MEMBERS: Record<Name, keyof EntryQuery> = {
  action: "auditAction",
  actor: "auditActor",
  subject: "subject",
  kind: "jobKind",
  trace: "traceId",
  batch: "batchId",
  task: "taskId",
};

/** What the API is asked for. */
function queryOf(conditions: Named<Name>): EntryQuery {
  return Object.fromEntries(
    NAMES.filter((name) => conditions[name]).map((name) => [MEMBERS[name], conditions[name]]),
  );
}

export function AuditPage() {
  const { text } = useText();
  const t = text.audit;
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  // The names that the API has lead here too.
  const given = Object.fromEntries(NAMES.map((name) => [name, search[MEMBERS[name]]])) as Named<Name>;
  const conditions = { subject: search.episodeId, ...given, ...words(search.q ?? "", NAMES).named };
  const query = queryOf(conditions);
  const page = Math.max(1, Number(search.page ?? search.auditPage) || 1);
  const found = useQuery(entries(query, page, PAGE));
  const go = (changed: Named<Name>, to = 1) =>
    void navigate({
      to: "/audit",
      search: { q: phrase(NAMES, changed) || undefined, page: to > 1 ? String(to) : undefined },
    });
  const c = text.columns;
  const file = (format: string) =>
    `${root}/api/tasks/audit-logs/export?${new URLSearchParams({ ...(query as Record<string, string>), format })}`;
  return (
    <>
      <Head title={text.nav.audit} under={t.under}>
        {["csv", "json", "jsonl"].map((format) => (
          <a key={format} className="button" href={file(format)} download>
            <Icon name="download" />
            {format.toUpperCase()}
          </a>
        ))}
      </Head>
      <ConditionBar
        id="audit-query"
        names={NAMES}
        conditions={conditions}
        change={(changed) => go(changed)}
      />
      <Card>
        <Asked query={found} rows={10}>
          {(seen) => (
            <>
              {seen.items.length === 0 ? (
                <Empty icon="audit" title={text.empty.auditTitle}>
                  {text.empty.audit}
                </Empty>
              ) : (
                <Table
                  label={text.nav.audit}
                  rows={seen.items}
                  name={(entry) => `${entry.chunk}.${entry.place}`}
                  columns={[
                    { title: c.at, lead: true, cell: (entry) => <At at={entry.at} /> },
                    {
                      title: c.who,
                      cell: (entry) => (
                        <button
                          type="button"
                          className="font-bold"
                          onClick={() => go({ ...conditions, actor: entry.actor })}
                        >
                          {entry.actor}
                        </button>
                      ),
                    },
                    {
                      title: t.proven,
                      breaks: true,
                      cell: (entry) => (
                        <span className="text-sm text-ink-3">{proven(entry, text) ?? "–"}</span>
                      ),
                    },
                    {
                      title: c.action,
                      cell: (entry) => (
                        <button
                          type="button"
                          className="mono text-left"
                          onClick={() => go({ ...conditions, action: entry.action })}
                        >
                          {entry.action}
                        </button>
                      ),
                    },
                    { title: c.what, breaks: true, cell: (entry) => <What entry={entry} /> },
                    {
                      title: c.why,
                      breaks: true,
                      cell: (entry) => entry.reason || <span className="zero">–</span>,
                    },
                    {
                      title: c.plan,
                      cell: (entry) =>
                        entry.batchId === null ? (
                          <span className="zero">–</span>
                        ) : (
                          <Link
                            className="id"
                            to="/redrive/$id"
                            params={{ id: entry.batchId }}
                            title={entry.batchId}
                          >
                            {tail(entry.batchId)}
                          </Link>
                        ),
                    },
                    {
                      title: c.number,
                      right: true,
                      cell: (entry) => <span className="mono mute">{`${entry.chunk}.${entry.place}`}</span>,
                    },
                  ]}
                />
              )}
              <footer className="row px-4 py-2 border-t border-line text-sm text-ink-3">
                {seen.items.length > 0 &&
                  text.common.range(
                    (page - 1) * PAGE + 1,
                    (page - 1) * PAGE + seen.items.length,
                    count(seen.total, !seen.partial),
                  )}
                {seen.partial && <span>{t.partial}</span>}
                <span className="push pager">
                  <button
                    type="button"
                    className="button small"
                    disabled={page === 1}
                    onClick={() => go(conditions, page - 1)}
                  >
                    {text.common.previous}
                  </button>
                  <button
                    type="button"
                    className="button small"
                    disabled={page * PAGE >= seen.total}
                    onClick={() => go(conditions, page + 1)}
                  >
                    {text.common.next}
                  </button>
                </span>
              </footer>
            </>
          )}
        </Asked>
      </Card>
      <PruneCard key={phrase(NAMES, conditions)} query={query} />
    </>
  );
}

function What({ entry }: { entry: Entry }) {
  const details = Object.entries(entry.details ?? {}).filter(([, value]) => value !== null);
  const written = details
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
  return (
    <>
      {entry.taskId !== null && <TaskLink id={entry.taskId} />}{" "}
      {entry.kind !== null && <span className="mono">{entry.kind}</span>}{" "}
      {entry.subject !== null && <span>{entry.subject}</span>}
      {written !== "" && (
        <p className="text-sm text-ink-3">{written.length > 200 ? `${written.slice(0, 200)}…` : written}</p>
      )}
    </>
  );
}
