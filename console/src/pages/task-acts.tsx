/** What can be done with one task. */
import { useState } from "react";
import { client, got, type Shapes } from "../api/client";
import { retried, type Task, useAct } from "../api/queries";
import { Dialog } from "../parts/dialog";
import { STRUCK } from "../parts/json";
import { useTell } from "../parts/toast";
import { useText } from "../text";

export type Revealed = Shapes["RevealedShape"];
export type Asking = "retry" | "edit" | "cancel" | "pause" | "resume";

export function Acting({ act, id, close }: { act: Exclude<Asking, "edit">; id: string; close: () => void }) {
  const { text } = useText();
  const t = text.task;
  const tell = useTell();
  const params = { path: { task_id: id } };
  const done = useAct(async ({ reason }: { reason: string }): Promise<unknown> => {
    switch (act) {
      case "retry":
        return retried(id, reason);
      case "cancel":
        return got(client.POST("/api/tasks/{task_id}/cancel", { params, body: { reason } }));
      case "pause":
        return got(client.POST("/api/tasks/{task_id}/pause", { params, body: { reason } }));
      case "resume":
        return got(client.POST("/api/tasks/{task_id}/resume", { params, body: { reason } }));
    }
  });
  const words = t.asks[act];
  return (
    <Dialog
      title={words.title}
      effects={words.effects.map((effect) => ["info", effect] as const)}
      act={words.act}
      keep={act === "cancel" ? t.keepIt : undefined}
      danger={act === "cancel"}
      reason={act === "resume" ? "wanted" : "needed"}
      onAct={async (reason) => {
        await done.mutateAsync({ reason });
        tell({ good: true, title: words.done });
      }}
      onClose={close}
    />
  );
}

export function Edit({ task, close }: { task: Task; close: () => void }) {
  const { text } = useText();
  const t = text.task;
  const tell = useTell();
  const [payload, setPayload] = useState(() => JSON.stringify(task.payload, null, 2));
  let value: unknown;
  let wrong = "";
  try {
    value = JSON.parse(payload);
  } catch (error) {
    wrong = (error as Error).message;
  }
  const struck = payload.includes(STRUCK);
  // A browser has no whole numbers beyond 2^53: it would write others.
  const large = hasLarge(task.payload);
  const params = { path: { task_id: task.id } };
  const act = useAct(({ reason }: { reason: string }) =>
    got(client.POST("/api/tasks/{task_id}/edit", { params, body: { payload: value as never, reason } })),
  );
  return (
    <Dialog
      title={t.editAsk}
      effects={t.editEffects.map((effect) => ["info", effect] as const)}
      act={t.editAct}
      ready={wrong === "" && !struck && !large}
      onAct={async (reason) => {
        await act.mutateAsync({ reason });
        tell({ good: true, title: t.edited });
      }}
      onClose={close}
    >
      <div className="field">
        <label htmlFor="payload">{t.payload}</label>
        <textarea
          id="payload"
          className="input mono"
          rows={10}
          spellCheck={false}
          aria-invalid={wrong !== ""}
          value={payload}
          onChange={(event) => setPayload(event.target.value)}
        />
        {wrong !== "" && (
          <span className="wrong" role="alert">
            {wrong}
          </span>
        )}
        {struck && <span className="wrong">{t.struck}</span>}
        {large && <span className="wrong">{t.large}</span>}
      </div>
    </Dialog>
  );
}

/** Payload and result with nothing struck out, until the page is left. */
export function Reveal({
  id,
  show,
  close,
}: {
  id: string;
  show: (revealed: Revealed) => void;
  close: () => void;
}) {
  const { text } = useText();
  const t = text.task;
  const params = { path: { task_id: id } };
  const act = useAct(({ reason }: { reason: string }) =>
    got(client.POST("/api/tasks/{task_id}/reveal", { params, body: { reason } })),
  );
  return (
    <Dialog
      title={t.revealAsk}
      effects={t.revealEffects.map((effect) => ["info", effect] as const)}
      act={t.revealAct}
      onAct={async (reason) => show(await act.mutateAsync({ reason }))}
      onClose={close}
    />
  );
}

/** Whether there is a whole number that a browser cannot hold. */
function hasLarge(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasLarge);
}
