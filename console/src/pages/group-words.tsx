/** What people say of a group. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, got } from "../api/client";
import { type GroupDetail, me, useAct } from "../api/queries";
import { Card } from "../parts/card";
import { Dialog } from "../parts/dialog";
import { useTell, useTellError } from "../parts/toast";
import { useText } from "../text";

export function Noted({ detail, may }: { detail: GroupDetail; may: boolean }) {
  const { text } = useText();
  const t = text.failures;
  const { group } = detail;
  const whoever = useQuery(me).data;
  const tell = useTell();
  const tellError = useTellError();
  // Nothing until somebody writes: what others write meanwhile is shown.
  const [written, setNote] = useState<string | null>(null);
  const note = written ?? group.note ?? "";
  const act = useAct(
    (body: { note?: string; owner?: string }) =>
      got(
        client.POST("/api/groups/{fingerprint}/note", {
          params: { path: { fingerprint: group.fingerprint } },
          body,
        }),
      ),
    (_, { owner }) => tell({ good: true, title: owner === undefined ? t.noteKept : t.taken(owner) }),
  );
  const send = (body: { note?: string; owner?: string }) => void act.mutateAsync(body).catch(tellError);
  return (
    <Card
      title={t.owner}
      tools={
        <button
          type="button"
          className="button small"
          disabled={!may || whoever === undefined || group.owner === whoever.name}
          onClick={() => send({ owner: whoever?.name })}
        >
          {t.take}
        </button>
      }
    >
      <div className="body stack">
        <p>{group.owner === null ? <span className="mute">{t.noOwner}</span> : group.owner}</p>
        <div className="field">
          <label className="unseen" htmlFor="note">
            {t.note}
          </label>
          <textarea
            id="note"
            className="input"
            rows={3}
            maxLength={10_000}
            placeholder={t.notePlaceholder}
            disabled={!may}
            value={note}
            onChange={(event) => setNote(event.target.value)}
          />
        </div>
        <button
          type="button"
          className="button small justify-self-start"
          disabled={!may || note === (group.note ?? "")}
          onClick={() => send({ note })}
        >
          {t.keepNote}
        </button>
      </div>
    </Card>
  );
}

export function Saying({
  act,
  detail,
  close,
}: {
  act: "ignore" | "resolve" | "reopen";
  detail: GroupDetail;
  close: () => void;
}) {
  const { text } = useText();
  const t = text.failures;
  const tell = useTell();
  const [hours, setHours] = useState(24);
  const path = { fingerprint: detail.group.fingerprint };
  const said = useAct(({ reason }: { reason: string }) => {
    if (act === "ignore")
      return got(
        client.POST("/api/groups/{fingerprint}/ignore", { params: { path }, body: { reason, hours } }),
      );
    if (act === "resolve")
      return got(client.POST("/api/groups/{fingerprint}/resolve", { params: { path }, body: { reason } }));
    return got(client.POST("/api/groups/{fingerprint}/reopen", { params: { path }, body: { reason } }));
  });
  const words = { ignore: t.ignoreAsk, resolve: t.resolveAsk, reopen: t.reopenAsk }[act];
  return (
    <Dialog
      title={words.title}
      effects={words.effects.map((effect) => ["info", effect] as const)}
      act={words.act}
      onAct={async (reason) => {
        await said.mutateAsync({ reason });
        tell({ good: true, title: words.done });
      }}
      onClose={close}
    >
      {act === "ignore" && (
        <div className="field">
          <label htmlFor="ignore-hours">{t.forHours}</label>
          <select
            id="ignore-hours"
            className="input"
            value={hours}
            onChange={(event) => setHours(Number(event.target.value))}
          >
            {[4, 24, 72, 168, 720].map((one) => (
              <option key={one} value={one}>
                {t.hours(one)}
              </option>
            ))}
          </select>
        </div>
      )}
    </Dialog>
  );
}
