/** What stands where data is not there: loading, empty, refused, away. */
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { Problem } from "../api/client";
import { useText } from "../text";
import { duration, moment } from "../text/format";
import { Icon, type IconName } from "./icon";

/** The skeleton of the rows to come, once it has taken long enough to be noticed. */
export function Bones({ rows = 5 }: { rows?: number }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return <div className="empty" aria-busy="true" />;
  return (
    <div className="body stack py-4" aria-busy="true" role="status">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: bones have no names
        <span key={row} className="bone" style={{ width: `${88 - ((row * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

export function Empty({
  icon = "done",
  title,
  children,
}: {
  icon?: IconName;
  title: string;
  children?: ReactNode;
}) {
  return (
    <div className="empty">
      <Icon name={icon} />
      <b>{title}</b>
      {children}
    </div>
  );
}

/** What went wrong, what still works, and when it is tried again. */
export function Failed({ error, again }: { error: Error; again?: () => void }) {
  const { text } = useText();
  const problem = error instanceof Problem ? error : null;
  const away = problem?.away === true;
  const unreachable = problem?.status === 0;
  const title = away
    ? text.errors.database
    : unreachable
      ? text.errors.api
      : problem?.status === 404
        ? text.errors.gone
        : text.errors.refused;
  return (
    <div className="empty" role="alert">
      <span className="text-red">
        <Icon name={away || unreachable ? "database" : "cross"} bad />
      </span>
      <b>{title}</b>
      {!unreachable && problem !== null && <p>{problem.detail || problem.title}</p>}
      {problem === null && <p>{error.message}</p>}
      {away && <p>{text.errors.databaseWhy}</p>}
      {unreachable && <p>{text.errors.apiWhy}</p>}
      {again !== undefined && (
        <div className="row">
          <button type="button" className="button small" onClick={again}>
            {text.common.tryAgain}
          </button>
        </div>
      )}
    </div>
  );
}

/** As of when what is shown was true, while it cannot be asked again. */
function Stale({ at, error }: { at: number; error: Error }) {
  const { text, language } = useText();
  const then = new Date(at);
  const age = duration(Math.max(0, (Date.now() - at) / 1_000));
  return (
    <p className="note family-grey" role="status">
      <Icon name="clock" />
      <span>
        <b>{text.common.stale(moment(then, new Date(), language), age)}</b> {error.message || text.errors.api}
      </span>
    </p>
  );
}

/** An answer, or what stands for it until it is there. What was shown before stays while it is asked again. */
export function Asked<T>({
  query,
  rows,
  children,
}: {
  query: UseQueryResult<T, Error>;
  rows?: number;
  children: (data: T) => ReactNode;
}) {
  if (query.data !== undefined)
    return (
      <>
        {query.error !== null && <Stale at={query.dataUpdatedAt} error={query.error} />}
        {children(query.data)}
      </>
    );
  if (query.error) return <Failed error={query.error} again={() => void query.refetch()} />;
  return <Bones rows={rows} />;
}
