/** Tasks: a search whose words are the address, and views that somebody keeps. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { type Letter, type Listed, letters, tasks } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { ConditionBar } from "../parts/conditions";
import { Icon } from "../parts/icon";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { At, TaskLink } from "../parts/values";
import { type Conditions, parsed, QUALIFIERS, written } from "../shell/query";
import { useText } from "../text";
import { filterOf } from "./plan-new";

const PAGE = 50;
const KEY = "holdfast.views";
const STATES = ["queued", "running", "paused", "failed", "cancelled", "completed"] as const;
type Stated = (typeof STATES)[number];

interface View {
  name: string;
  q: string;
}

function kept(): View[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "[]") as View[];
  } catch {
    return [];
  }
}

interface Row {
  id: string;
  kind: string;
  queue: string;
  state: string;
  subject: string | null;
  attempts: number;
  at: string | null;
  error: string | null;
}

function ofListed(one: Listed): Row {
  const later =
    one.state === "queued" && one.nextAttemptAt !== null && new Date(one.nextAttemptAt) > new Date();
  return {
    ...one,
    state: later ? "scheduled" : one.state,
    at: one.endedAt ?? one.nextAttemptAt ?? one.enqueuedAt,
    error: one.error,
  };
}

function ofLetter(one: Letter): Row {
  return { ...one, at: one.diedAt };
}

export function TasksPage() {
  const { text } = useText();
  const navigate = useNavigate();
  const search = useSearch({ strict: false });
  const conditions = parsed(search.q ?? "");
  const [views, setViews] = useState(kept);
  const go = (changed: Conditions, before?: string) =>
    void navigate({ to: "/tasks", search: { q: written(changed) || undefined, before } });
  const keep = (changed: View[]) => {
    localStorage.setItem(KEY, JSON.stringify(changed));
    setViews(changed);
  };
  const q = written(conditions);
  const known = views.find((view) => view.q === q);
  const t = text.search;
  return (
    <>
      <Head title={text.nav.tasks} under={t.under} />
      <div className="row">
        <ConditionBar
          id="tasks-query"
          names={QUALIFIERS}
          bare="subject"
          conditions={conditions}
          change={(changed) => go(changed)}
        />
        {q !== "" && (
          <button
            type="button"
            className="button"
            onClick={() =>
              keep(known === undefined ? [...views, { name: q, q }] : views.filter((view) => view !== known))
            }
          >
            {known === undefined ? t.keepView : t.dropView}
          </button>
        )}
      </div>
      <div className="row">
        <nav className="segments" aria-label={text.columns.state}>
          <button
            type="button"
            aria-pressed={conditions.state === undefined}
            onClick={() => go({ ...conditions, state: undefined })}
          >
            {t.unfinished}
          </button>
          {STATES.map((state) => (
            <button
              key={state}
              type="button"
              aria-pressed={conditions.state === state}
              onClick={() => go({ ...conditions, state })}
            >
              {text.state[state]}
            </button>
          ))}
        </nav>
        {views.map((view) => (
          <button key={view.q} type="button" className="chip fixed" onClick={() => go(parsed(view.q))}>
            <Icon name="search" small />
            <span className="value">{view.name}</span>
          </button>
        ))}
      </div>
      {impossible(conditions) ? (
        <Card>
          <Empty icon="search" title={text.empty.tasksTitle}>
            {text.search.impossible(STATES.join(", "))}
          </Empty>
        </Card>
      ) : (
        <Found conditions={conditions} before={search.before} go={go} />
      )}
    </>
  );
}

/** A state that nothing can be listed by, or one beside what only dead letters have. */
function impossible({ state, group, code, reason }: Conditions): boolean {
  if (state === undefined) return false;
  return !STATES.some((one) => one === state) || (state !== "failed" && Boolean(group || code || reason));
}

function Found({
  conditions,
  before,
  go,
}: {
  conditions: Conditions;
  before?: string;
  go: (conditions: Conditions, before?: string) => void;
}) {
  const { text } = useText();
  const navigate = useNavigate();
  // Dead letters are found by more: their group, code and reason.
  const dead =
    conditions.state === "failed" ||
    conditions.group !== undefined ||
    conditions.code !== undefined ||
    conditions.reason !== undefined;
  const state = STATES.find((one) => one === conditions.state) as Stated | undefined;
  const asDead = useQuery({ ...letters(filterOf(conditions), PAGE, before), enabled: dead });
  const asTasks = useQuery({
    ...tasks(
      {
        state,
        jobKind: conditions.kind,
        queue: conditions.queue,
        subject: conditions.subject,
        traceId: conditions.trace,
        before,
      },
      PAGE,
    ),
    enabled: !dead,
  });
  const asked = QUALIFIERS.filter((name) => conditions[name]);
  const c = text.columns;
  const table = (rows: readonly Row[], next: string | null | undefined, partial: boolean | undefined) => (
    <>
      {partial && (
        <p className="note family-amber m-4">
          <Icon name="warn" />
          <span>
            {text.common.partial}{" "}
            <button type="button" className="link" onClick={() => go(conditions, next ?? undefined)}>
              {text.common.partialMore}
            </button>
          </span>
        </p>
      )}
      {rows.length === 0 ? (
        <Empty icon="search" title={text.empty.tasksTitle}>
          {asked.length === 0 ? text.empty.tasksNone : text.empty.tasks(asked.length)}
          {asked.length > 0 && (
            <div className="row">
              {asked.map((name) => (
                <button
                  key={name}
                  type="button"
                  className="button small"
                  onClick={() => go({ ...conditions, [name]: undefined })}
                >
                  {text.empty.drop(`${name}:${conditions[name]}`)}
                </button>
              ))}
            </div>
          )}
        </Empty>
      ) : (
        <Table
          label={text.nav.tasks}
          rows={rows}
          name={(row) => row.id}
          open={(row) => void navigate({ to: "/tasks/$id", params: { id: row.id } })}
          columns={[
            { title: c.task, lead: true, cell: (row) => <TaskLink id={row.id} /> },
            { title: c.state, cell: (row) => <State state={row.state} /> },
            { title: c.kind, cell: (row) => <span className="mono">{row.kind}</span> },
            { title: c.subject, breaks: true, cell: (row) => row.subject ?? <span className="zero">–</span> },
            { title: c.queue, cell: (row) => row.queue },
            { title: c.attempts, right: true, cell: (row) => row.attempts },
            {
              title: c.error,
              wide: true,
              cell: (row) =>
                row.error === null ? (
                  <span className="zero">–</span>
                ) : (
                  <span className="clip block" title={row.error}>
                    {row.error}
                  </span>
                ),
            },
            { title: text.search.when, right: true, cell: (row) => <At at={row.at} /> },
          ]}
        />
      )}
      <footer className="row px-4 py-2 border-t border-line text-sm text-ink-3">
        {text.common.shown(rows.length)}
        <span className="push pager">
          <button
            type="button"
            className="button small"
            disabled={before === undefined}
            onClick={() => go(conditions)}
          >
            {text.common.newest}
          </button>
          <button
            type="button"
            className="button small"
            disabled={next == null}
            onClick={() => go(conditions, next ?? undefined)}
          >
            {text.common.older}
          </button>
        </span>
      </footer>
    </>
  );
  return (
    <Card>
      {dead ? (
        <Asked query={asDead} rows={10}>
          {(page) => table(page.items.map(ofLetter), page.next, page.partial)}
        </Asked>
      ) : (
        <Asked query={asTasks} rows={10}>
          {(page) => table(page.items.map(ofListed), page.next, page.partial)}
        </Asked>
      )}
    </Card>
  );
}
