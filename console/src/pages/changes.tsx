/** What changed lately, from the store and from the audit, as one list; the telling ones are marks in the chart. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Now } from "../api/queries";
import type { Text } from "../text";

export interface Marked {
  key: string;
  at: string;
  /** Its number in the chart; nothing where it is no mark. */
  label: string | null;
  /** A release stands out. */
  filled: boolean;
  title: (text: Text) => string;
  link: (text: Text) => ReactNode;
  under: string;
}

// Many of these belong to one act, which has an entry of its own.
const PARTS = /_(ITEM|SKIPPED)$/;
const SHOWN = 12;

export function changesOf(seen: Now): Marked[] {
  const from =
    new Date(seen.at).getTime() -
    seen.stepSeconds *
      1_000 *
      (seen.stepSeconds === 60 ? 60 : seen.stepSeconds === 300 ? 72 : seen.stepSeconds === 900 ? 96 : 84);
  const found: Marked[] = seen.changes.map((change) => {
    const title = (text: Text) =>
      change.what === "release"
        ? text.now.release(change.name)
        : change.what === "worker_lost"
          ? text.now.workerLost(change.name)
          : text.now.groupNew(change.kind ?? "");
    return {
      key: `${change.what}-${change.at}-${change.name}`,
      at: change.at,
      label: change.what === "group_new" ? null : "",
      filled: change.what === "release",
      title,
      link: (text) =>
        change.what === "group_new" && change.detail !== null ? (
          <Link className="link" to="/failures/$fingerprint" params={{ fingerprint: change.detail }}>
            {title(text)}
          </Link>
        ) : (
          title(text)
        ),
      under: change.what === "group_new" ? change.name : "",
    };
  });
  for (const entry of seen.entries) {
    if (PARTS.test(entry.action) || new Date(entry.at).getTime() < from) continue;
    const title = () => `${entry.actor}: ${entry.action}${entry.kind === null ? "" : ` ${entry.kind}`}`;
    found.push({
      key: `${entry.chunk}-${entry.place}`,
      at: entry.at,
      label: "",
      filled: false,
      title,
      link: () => (
        <>
          <b>{entry.actor}</b>{" "}
          <Link
            className="mono"
            to="/audit"
            search={
              entry.batchId === null ? { q: `action:${entry.action}` } : { q: `batch:${entry.batchId}` }
            }
          >
            {entry.action}
          </Link>
          {entry.kind !== null && <span className="mono"> {entry.kind}</span>}
        </>
      ),
      under: entry.reason,
    });
  }
  const shown = found.toSorted((a, b) => (a.at < b.at ? 1 : -1)).slice(0, SHOWN);
  // Numbered by their time, the oldest is the first.
  let number = shown.filter((mark) => mark.label !== null).length;
  return shown.map((mark) => (mark.label === null ? mark : { ...mark, label: String(number--) }));
}
