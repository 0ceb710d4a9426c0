/** What a redrive would do, read only; a few can be retried at once. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, got, type Shapes } from "../api/client";
import { type Filter, me, useAct } from "../api/queries";
import { Empty } from "../parts/asked";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { useLetterColumns } from "../parts/letters";
import { State } from "../parts/state";
import { Table, useTicks } from "../parts/table";
import { useTell } from "../parts/toast";
import { At, Meter } from "../parts/values";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { count } from "../text/format";

export const PAGE = 20;
const AT_ONCE_MAX = 500;

export type Preview = Shapes["PreviewShape"];

function Shares({
  title,
  rows,
  total,
}: {
  title: string;
  rows: readonly (readonly [string, number])[];
  total: number;
}) {
  const { text } = useText();
  const shown = rows.toSorted((a, b) => b[1] - a[1]);
  const rest = shown.slice(4).reduce((sum, [, tasks]) => sum + tasks, 0);
  const listed: (readonly [string, number])[] =
    rest > 0 ? [...shown.slice(0, 4), [text.plans.more(shown.length - 4), rest]] : shown.slice(0, 4);
  return (
    <div>
      <h3>{title}</h3>
      <ul>
        {listed.map(([name, tasks]) => (
          <li key={name}>
            <span className="clip" title={name}>
              {name}
            </span>
            <span>{count(tasks)}</span>
            <Meter share={tasks / Math.max(1, total)} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** How many of the sorts share a value. */
function summed(
  seen: Preview,
  of: (sort: Preview["sorts"][number]) => string | null | undefined,
): (readonly [string, number])[] {
  const sums = new Map<string, number>();
  for (const sort of seen.sorts) sums.set(of(sort) ?? "–", (sums.get(of(sort) ?? "–") ?? 0) + sort.tasks);
  return [...sums];
}

export function Previewed({
  seen,
  filter,
  page,
  turn,
}: {
  seen: Preview;
  filter: Filter;
  page: number;
  turn: (page: number) => void;
}) {
  const { text } = useText();
  const t = text.plans;
  const columns = useLetterColumns();
  const ticks = useTicks();
  const may = mayOperate(useQuery(me).data?.role);
  const [asking, setAsking] = useState(false);
  const excluded = Object.entries(seen.excluded);
  const out = excluded.reduce((sum, [, tasks]) => sum + tasks, 0);
  const first = seen.sorts.reduce<string | null>(
    (least, sort) => (least === null || sort.firstAt < least ? sort.firstAt : least),
    null,
  );
  const last = seen.sorts.reduce<string | null>(
    (most, sort) => (most === null || sort.lastAt > most ? sort.lastAt : most),
    null,
  );
  if (seen.total === 0)
    return (
      <Empty icon="search" title={text.empty.deadTitle}>
        {Object.values(filter).some(Boolean) ? t.nothingFits : text.empty.dead}
      </Empty>
    );
  return (
    <>
      <div className="tiles four border-t border-line">
        <div className="tile">
          <span className="label">{t.match}</span>
          <div className="figure">{count(seen.total + out, seen.exact)}</div>
          <div className="under">{t.deadLetters}</div>
        </div>
        <div className="tile">
          <span className="label">{t.excluded}</span>
          <div className="figure">{count(out)}</div>
          <div className="under">{t.reasons(excluded.length)}</div>
        </div>
        <div className="tile">
          <span className="label">{text.columns.inPlan}</span>
          <div className="figure">{count(seen.total, seen.exact)}</div>
          <div className="under">{seen.exact ? t.exact : t.notExact}</div>
        </div>
        <div className="tile">
          <span className="label">{t.failedBetween}</span>
          <div className="figure">
            <At at={first} seconds={false} />
          </div>
          <div className="under">
            {t.to} <At at={last} seconds={false} />
          </div>
        </div>
      </div>
      <div className="body pt-4 border-t border-line">
        <div className="shares">
          <Shares title={text.columns.kind} rows={summed(seen, (sort) => sort.kind)} total={seen.total} />
          <Shares title={t.errorCode} rows={summed(seen, (sort) => sort.errorCode)} total={seen.total} />
          <Shares title={t.deadReason} rows={summed(seen, (sort) => sort.deadReason)} total={seen.total} />
          <Shares
            title={text.columns.group}
            rows={summed(seen, (sort) => sort.fingerprint)}
            total={seen.total}
          />
        </div>
      </div>
      {seen.unguarded.length > 0 && (
        <div className="body">
          <p className="note family-grey">
            <Icon name="info" />
            {t.unguarded(seen.unguarded.join(", "))}
          </p>
        </div>
      )}
      {excluded.length > 0 && (
        <div className="border-t border-line">
          <Table
            label={text.columns.excluded}
            rows={excluded}
            name={([why]) => why}
            columns={[
              { title: text.columns.excluded, lead: true, breaks: true, cell: ([why]) => why },
              { title: text.columns.tasks, right: true, cell: ([, tasks]) => count(tasks) },
            ]}
          />
        </div>
      )}
      <div className="selection">
        <b>{text.common.selected(ticks.chosen.size)}</b>
        <span className="mute">{text.common.thisPage}</span>
        {ticks.chosen.size > 0 && (
          <button type="button" className="link" onClick={() => ticks.set(new Set())}>
            {text.common.selectNone}
          </button>
        )}
        <span className="push row">
          <span className="why">{may ? t.atOnce(AT_ONCE_MAX) : text.common.needRole("operator")}</span>
          <button
            type="button"
            className="button small"
            disabled={!may || ticks.chosen.size === 0}
            onClick={() => setAsking(true)}
          >
            {t.retrySelected(ticks.chosen.size)}
          </button>
        </span>
      </div>
      <Table
        label={t.steps.preview}
        rows={seen.items}
        name={(letter) => letter.id}
        ticks={ticks}
        columns={[
          ...columns.who,
          { title: text.columns.state, cell: (letter) => <State state={letter.state} /> },
          ...columns.said,
          { title: text.columns.attempts, right: true, cell: (letter) => letter.attempts },
          ...columns.died,
        ]}
      />
      <footer className="row px-4 py-2 border-t border-line text-sm text-ink-3">
        {text.common.range(
          (page - 1) * PAGE + 1,
          (page - 1) * PAGE + seen.items.length,
          count(seen.total + out, seen.exact),
        )}
        <span className="push pager">
          <button type="button" className="button small" disabled={page === 1} onClick={() => turn(page - 1)}>
            {text.common.previous}
          </button>
          <button
            type="button"
            className="button small"
            disabled={page * PAGE >= seen.total + out}
            onClick={() => turn(page + 1)}
          >
            {text.common.next}
          </button>
        </span>
      </footer>
      {asking && (
        <RetrySelected
          ids={[...ticks.chosen]}
          close={() => setAsking(false)}
          done={() => ticks.set(new Set())}
        />
      )}
    </>
  );
}

function RetrySelected({
  ids,
  close,
  done,
}: {
  ids: readonly string[];
  close: () => void;
  done: () => void;
}) {
  const { text } = useText();
  const t = text.plans;
  const tell = useTell();
  const act = useAct((reason: string) =>
    got(client.POST("/api/tasks/dead-letters/retry", { body: { taskIds: [...ids], reason, dryRun: false } })),
  );
  return (
    <Dialog
      title={t.retryAsk(count(ids.length))}
      effects={[
        ["redrive", t.retryEffect],
        ["audit", t.retryAudit],
      ]}
      act={t.retrySelected(ids.length)}
      onAct={async (reason) => {
        const answer = await act.mutateAsync(reason);
        const skipped = Object.values(answer.skipped).reduce((sum, tasks) => sum + tasks, 0);
        tell({
          good: true,
          title: t.retried(count(answer.retried)),
          under: skipped > 0 ? t.skipped(count(skipped)) : undefined,
        });
        done();
      }}
      onClose={close}
    />
  );
}
