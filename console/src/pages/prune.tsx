/** Letting old entries go: a dry run first. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, got } from "../api/client";
import { type EntryQuery, me, useAct } from "../api/queries";
import { Card } from "../parts/card";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icon";
import { useTell, useTellError } from "../parts/toast";
import { mayAdmin } from "../shell/roles";
import { useText } from "../text";
import { count } from "../text/format";

export function PruneCard({ query }: { query: EntryQuery }) {
  const { text } = useText();
  const t = text.audit;
  const tell = useTell();
  const tellError = useTellError();
  const may = mayAdmin(useQuery(me).data?.role);
  const [days, setDays] = useState("30");
  const [found, setFound] = useState<{ days: number; rows: number } | null>(null);
  const [asking, setAsking] = useState(false);
  const body = (dryRun: boolean, reason: string) => ({
    ...query,
    olderThanDays: Number(days),
    dryRun,
    reason,
  });
  const dry = useAct(
    () => got(client.POST("/api/tasks/audit-logs/prune", { body: body(true, "") })),
    (answer) => setFound({ days: Number(days), rows: answer.prunable }),
  );
  const prune = useAct(async ({ reason }: { reason: string }) => {
    // Five hundred go in one call, each call with its entry; the last one tells that none is left.
    let pruned = 0;
    for (;;) {
      const answer = await got(client.POST("/api/tasks/audit-logs/prune", { body: body(false, reason) }));
      pruned += answer.pruned;
      if (answer.pruned === 0 || answer.prunable === 0) return pruned;
    }
  });
  const good = days.trim() !== "" && Number(days) >= 0;
  const current = found !== null && found.days === Number(days) ? found : null;
  return (
    <Card title={t.prune} meta={t.pruneMeta}>
      <div className="body row items-end">
        <div className="field w-32">
          <label htmlFor="prune-days">{t.olderThan}</label>
          <input
            id="prune-days"
            className="input"
            inputMode="numeric"
            aria-invalid={!good}
            value={days}
            onChange={(event) => setDays(event.target.value)}
          />
        </div>
        <button
          type="button"
          className="button"
          disabled={!may || !good || dry.isPending}
          onClick={() => void dry.mutateAsync(undefined).catch(tellError)}
        >
          {t.dryRun}
        </button>
        <button
          type="button"
          className="button danger"
          disabled={!may || current === null || current.rows === 0}
          onClick={() => setAsking(true)}
        >
          <Icon name="trash" />
          {current === null ? t.pruneSome : t.pruneRows(count(current.rows))}
        </button>
        <span className="why">
          {!may
            ? text.common.needRole("admin")
            : current === null
              ? t.dryFirst
              : t.wouldGo(count(current.rows))}
        </span>
      </div>
      {asking && current !== null && (
        <Dialog
          title={t.pruneAsk(count(current.rows), current.days)}
          effects={[
            ["trash", t.pruneEffect],
            ["lock", t.pruneChain],
            ["audit", t.pruneAudited],
          ]}
          act={t.pruneRows(count(current.rows))}
          keep={t.keepThem}
          danger
          typed={`prune ${current.rows}`}
          onAct={async (reason) => {
            const pruned = await prune.mutateAsync({ reason });
            setFound(null);
            tell({ good: true, title: t.pruned(count(pruned)) });
          }}
          onClose={() => setAsking(false)}
        />
      )}
    </Card>
  );
}
