/** Pausing a kind or a queue, and letting it go on. */
import { useState } from "react";
import { client, got } from "../api/client";
import { useAct } from "../api/queries";
import { useText } from "../text";
import { count } from "../text/format";
import { Dialog } from "./dialog";
import { useTell, useTellError } from "./toast";

const MINUTES = [30, 120, 480] as const;

/** Lets a kind or a queue go on. */
export function useResume(): (what: "kinds" | "queues", name: string) => void {
  const { text } = useText();
  const tell = useTell();
  const tellError = useTellError();
  const act = useAct(({ what, name }: { what: "kinds" | "queues"; name: string }) => {
    const params = { path: { name } };
    return what === "kinds"
      ? got(client.POST("/api/kinds/{name}/resume", { params }))
      : got(client.POST("/api/queues/{name}/resume", { params }));
  });
  return (what, name) =>
    void act
      .mutateAsync({ what, name })
      .then(() => tell({ good: true, title: text.pausing.resumed(name) }), tellError);
}

/** Pauses what goes on, lets go on what is paused. */
export function PauseButton({
  paused,
  may,
  pause,
  resume,
}: {
  paused: boolean;
  may: boolean;
  pause: () => void;
  resume: () => void;
}) {
  const { text } = useText();
  return (
    <button type="button" className="button small" disabled={!may} onClick={paused ? resume : pause}>
      {paused ? text.queues.resume : text.queues.pause}
    </button>
  );
}

function Pausing({
  what,
  name,
  waiting,
  running,
  close,
}: {
  what: "kinds" | "queues";
  name: string;
  waiting?: number;
  running?: number;
  close: () => void;
}) {
  const { text } = useText();
  const tell = useTell();
  const resume = useResume();
  const [minutes, setMinutes] = useState<number>(MINUTES[0]);
  const t = text.pausing;
  const act = useAct(({ reason }: { reason: string }) => {
    const body = {
      reason,
      until: minutes === 0 ? null : new Date(Date.now() + minutes * 60_000).toISOString(),
    };
    return what === "kinds"
      ? got(client.POST("/api/kinds/{name}/pause", { params: { path: { name } }, body }))
      : got(client.POST("/api/queues/{name}/pause", { params: { path: { name } }, body }));
  });
  return (
    <Dialog
      title={t.title(name)}
      effects={[
        ["running", running === undefined ? t.running : t.runningMany(count(running))],
        ["ring", waiting === undefined ? t.waiting : t.waitingMany(count(waiting))],
        ["back", t.back],
      ]}
      act={t.act(name)}
      onAct={async (reason) => {
        await act.mutateAsync({ reason });
        tell({
          good: true,
          title: t.paused(name),
          under: minutes === 0 ? undefined : t.byItself(minutes),
          undo: () => resume(what, name),
        });
      }}
      onClose={close}
    >
      <div className="field">
        <label htmlFor="pause-until">{t.until}</label>
        <select
          id="pause-until"
          className="input"
          value={minutes}
          onChange={(event) => setMinutes(Number(event.target.value))}
        >
          {MINUTES.map((one) => (
            <option key={one} value={one}>
              {t.after(one)}
            </option>
          ))}
          <option value={0}>{t.never}</option>
        </select>
      </div>
    </Dialog>
  );
}

export function PauseKind({
  kind,
  waiting,
  close,
}: {
  kind: string;
  waiting?: { ready: number; running: number };
  close: () => void;
}) {
  return (
    <Pausing what="kinds" name={kind} waiting={waiting?.ready} running={waiting?.running} close={close} />
  );
}

export function PauseQueue({
  queue,
  waiting,
  running,
  close,
}: {
  queue: string;
  waiting: number;
  running: number;
  close: () => void;
}) {
  return <Pausing what="queues" name={queue} waiting={waiting} running={running} close={close} />;
}
