/** What can be done with one endpoint. */
import { useState } from "react";
import { client, got } from "../api/client";
import { type Attempt, useAct } from "../api/queries";
import { Dialog } from "../parts/dialog";
import { useTell } from "../parts/toast";
import { useText } from "../text";
import { count } from "../text/format";
import type { Endpoint } from "./webhooks";

export type Asking = { what: "disable" | "enable" | "since" } | { what: "resend"; attempt: Attempt };

export function Acting({
  asking,
  endpoint,
  close,
}: {
  asking: Asking;
  endpoint: Endpoint;
  close: () => void;
}) {
  const { text } = useText();
  const t = text.webhooks;
  const tell = useTell();
  const [hours, setHours] = useState(24);
  const [again, setAgain] = useState(false);
  const params = { path: { endpoint_id: endpoint.id } };
  const act = useAct(async ({ reason }: { reason: string }): Promise<string> => {
    switch (asking.what) {
      case "disable":
        await got(client.POST("/api/webhooks/endpoints/{endpoint_id}/disable", { params, body: { reason } }));
        return t.disabled;
      case "enable":
        await got(client.POST("/api/webhooks/endpoints/{endpoint_id}/enable", { params, body: { reason } }));
        return t.enabled;
      case "resend":
        await got(
          client.POST("/api/webhooks/deliveries/{delivery_id}/resend", {
            params: { path: { delivery_id: asking.attempt.taskId } },
            body: { reason },
          }),
        );
        return t.resent(1);
      case "since": {
        const since = new Date(Date.now() - hours * 3_600_000).toISOString();
        const sent = await got(
          client.POST("/api/webhooks/endpoints/{endpoint_id}/resend", {
            params,
            body: { since, delivered: again, reason },
          }),
        );
        if (sent.plan?.shownState === "awaiting approval") return t.resendWaits(count(sent.plan.items));
        return t.resentMany(count(sent.plan?.items ?? 0), count(sent.delivered), count(sent.notKept));
      }
    }
  });
  const words = t.asks[asking.what];
  return (
    <Dialog
      title={words.title}
      effects={words.effects.map((effect) => ["info", effect] as const)}
      act={words.act}
      danger={asking.what === "disable"}
      onAct={async (reason) => tell({ good: true, title: await act.mutateAsync({ reason }) })}
      onClose={close}
    >
      {asking.what === "since" && (
        <>
          <div className="field">
            <label htmlFor="since">{t.since}</label>
            <select
              id="since"
              className="input"
              value={hours}
              onChange={(event) => setHours(Number(event.target.value))}
            >
              {[1, 6, 24, 72, 168].map((one) => (
                <option key={one} value={one}>
                  {text.failures.hours(one)}
                </option>
              ))}
            </select>
          </div>
          <label className="row">
            <input type="checkbox" checked={again} onChange={(event) => setAgain(event.target.checked)} />
            {t.deliveredToo}
          </label>
        </>
      )}
    </Dialog>
  );
}
