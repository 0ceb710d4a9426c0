/** Setting, changing and clearing a limit. */
import { useState } from "react";
import { client, got } from "../api/client";
import { type Limit, type Scope, useAct } from "../api/queries";
import { Dialog } from "../parts/dialog";
import { useTell } from "../parts/toast";
import { useText } from "../text";
import { count } from "../text/format";

/** `kind:video.render` is a scope and a name. */
function scoped(name: string): [Scope, string] {
  const [scope, ...rest] = name.split(":");
  return scope === "kind" || scope === "queue" || scope === "key" ? [scope, rest.join(":")] : ["key", name];
}

export function SetLimit({ limit, close }: { limit: Limit | null; close: () => void }) {
  const { text } = useText();
  const t = text.queues;
  const tell = useTell();
  const [first, named] = limit === null ? (["kind", ""] as [Scope, string]) : scoped(limit.name);
  const [scope, setScope] = useState<Scope>(first);
  const [name, setName] = useState(named);
  const [running, setRunning] = useState(limit?.runningMax == null ? "" : String(limit.runningMax));
  const [clears, setClears] = useState(false);
  const was = limit?.rateCount == null ? "" : `${limit.rateCount}/${limit.rateSeconds}s`;
  const [rate, setRate] = useState(was);
  const act = useAct(() =>
    got(
      client.POST("/api/limits", {
        body: {
          scope,
          name: name.trim(),
          running: running.trim() === "" ? null : Number(running),
          rate: rate.trim() === "" ? null : rate.trim(),
          burst: rate.trim() === was ? limit?.rateBurst : undefined,
          weight: limit?.weight ?? 1,
        },
      }),
    ),
  );
  const clear = useAct(() => got(client.POST("/api/limits/clear", { body: { scope, name } })));
  const whole = /^\s*\d*\s*$/.test(running);
  const empty = running.trim() === "" && rate.trim() === "";
  return (
    <Dialog
      title={limit === null ? t.limitAsk : t.limitChange(limit.name)}
      effects={[["info", clears ? t.limitClear : t.limitEffect]]}
      act={clears ? t.clear : t.set}
      reason="none"
      ready={clears || (name.trim() !== "" && whole && !empty)}
      onAct={async () => {
        await (clears ? clear : act).mutateAsync(undefined);
        const to = running.trim() === "" ? rate : count(Number(running));
        tell({ good: true, title: clears ? t.cleared(name) : t.limitSet(name, to) });
      }}
      onClose={close}
    >
      {limit === null && (
        <div className="row items-start">
          <div className="field w-28">
            <label htmlFor="limit-scope">{t.scope}</label>
            <select
              id="limit-scope"
              className="input"
              value={scope}
              onChange={(event) => setScope(event.target.value as Scope)}
            >
              {(["kind", "queue", "key"] as const).map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </select>
          </div>
          <div className="field flex-1">
            <label htmlFor="limit-name">{t.name}</label>
            <input
              id="limit-name"
              className="input mono"
              placeholder={t.nameHint[scope]}
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          </div>
        </div>
      )}
      <div className="row items-start">
        <div className="field flex-1">
          <label htmlFor="limit-running">{text.columns.atOnce}</label>
          <input
            id="limit-running"
            className="input"
            inputMode="numeric"
            disabled={clears}
            aria-invalid={!whole}
            value={running}
            onChange={(event) => setRunning(event.target.value)}
          />
        </div>
        <div className="field flex-1">
          <label htmlFor="limit-rate">{text.columns.rate}</label>
          <input
            id="limit-rate"
            className="input mono"
            placeholder="100/s"
            disabled={clears}
            value={rate}
            onChange={(event) => setRate(event.target.value)}
          />
        </div>
      </div>
      {limit !== null && (
        <label className="row">
          <input type="checkbox" checked={clears} onChange={(event) => setClears(event.target.checked)} />
          {t.clear}
        </label>
      )}
    </Dialog>
  );
}
