/** Values as people read them: times with their age, counts that lead to lists, ids that can be copied. */
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useText } from "../text";
import { count, duration, moment, tail } from "../text/format";
import { Icon } from "./icon";

/** A moment: clock time today, the date before; all of it on hover. */
export function At({ at, seconds = true }: { at: string | null | undefined; seconds?: boolean }) {
  const { language } = useText();
  if (!at) return <span className="zero">–</span>;
  const value = new Date(at);
  const present = new Date();
  const age = duration(Math.abs(present.getTime() - value.getTime()) / 1_000);
  return (
    <time dateTime={at} title={`${value.toISOString()} · ${age}`}>
      {moment(value, present, language, seconds)}
    </time>
  );
}

/** A count; nothing is muted, and unknown is no zero. */
export function Count({ value, exact = true }: { value: number | null | undefined; exact?: boolean }) {
  if (value === null || value === undefined) return <span className="zero">–</span>;
  return <span className={value === 0 ? "zero" : undefined}>{count(value, exact)}</span>;
}

/** A count that leads to the list that makes it. */
export function Counted({
  value,
  to,
  search,
  exact = true,
}: {
  value: number;
  to: string;
  search: Record<string, string | undefined>;
  exact?: boolean;
}) {
  if (value === 0) return <span className="zero">0</span>;
  return (
    <Link className="number" to={to} search={search}>
      {count(value, exact)}
    </Link>
  );
}

/** A task by the end of its id. */
export function TaskLink({ id }: { id: string }) {
  return (
    <Link className="id" to="/tasks/$id" params={{ id }} title={id}>
      {tail(id)}
    </Link>
  );
}

export function Copy({ value }: { value: string }) {
  const { text } = useText();
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      className="copy"
      aria-label={done ? text.common.copied : text.common.copy}
      title={done ? text.common.copied : text.common.copy}
      onClick={() => {
        void navigator.clipboard?.writeText(value).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 2_000);
        });
      }}
    >
      <Icon name={done ? "tick" : "copy"} />
    </button>
  );
}

/** How often, hour by hour: bars with a common floor, so that one never looks like a thousand. */
export function Spark({ values, calm = false }: { values: readonly number[]; calm?: boolean }) {
  const most = Math.max(10, ...values);
  return (
    <span className={`spark${calm ? " calm" : ""}`} role="img" aria-label={values.join(", ")}>
      {values.map((value, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an hour is its place
        <i key={place} style={{ height: `${value === 0 ? 0 : Math.max(8, (value / most) * 100)}%` }} />
      ))}
    </span>
  );
}

/** A part of a whole. */
export function Meter({
  share,
  fill = "grey",
  bare = false,
}: {
  share: number;
  fill?: string;
  bare?: boolean;
}) {
  return (
    <span className={`meter${bare ? " bare" : ""}`} aria-hidden="true">
      {share > 0 && <i className={`fill-${fill}`} style={{ width: `${Math.min(100, share * 100)}%` }} />}
    </span>
  );
}
