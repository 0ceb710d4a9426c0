/** Lists: words left, numbers right; rows are walked with j and k, opened with Enter, ticked with x. */
import { type ReactNode, useEffect, useRef, useState } from "react";
import { hold, release } from "../api/live";
import { useKeys } from "../shell/keys";
import { useText } from "../text";

export interface Column<T> {
  title: string;
  cell: (row: T) => ReactNode;
  right?: boolean;
  /** Takes what room there is, and clips. */
  wide?: boolean;
  /** Breaks its lines rather than being clipped. */
  breaks?: boolean;
  /** On narrow screens it stands without its name. */
  lead?: boolean;
}

interface Rows<T> {
  rows: readonly T[];
  columns: readonly Column<T>[];
  name: (row: T) => string;
  open?: (row: T) => void;
  ticks?: Ticks;
  /** Why a row cannot be ticked. */
  locked?: (row: T) => boolean;
  tall?: boolean;
  label: string;
}

export interface Ticks {
  chosen: ReadonlySet<string>;
  set: (chosen: ReadonlySet<string>) => void;
}

/** What is ticked. Updates are held meanwhile, so that rows never move under the pointer. */
export function useTicks(): Ticks {
  const [chosen, set] = useState<ReadonlySet<string>>(new Set());
  const some = chosen.size > 0;
  useEffect(() => {
    if (!some) return;
    hold("selection");
    return () => release("selection");
  }, [some]);
  return { chosen, set };
}

export function Table<T>({ rows, columns, name, open, ticks, locked, tall = false, label }: Rows<T>) {
  const { text } = useText();
  // By their names: rows come and go.
  const [at, setAt] = useState<string | null>(null);
  const from = useRef<string | null>(null);
  const current = rows.findIndex((row) => name(row) === at);
  const body = useRef<HTMLTableSectionElement>(null);
  const free = rows.filter((row) => locked?.(row) !== true);

  function go(step: number) {
    const place = Math.max(0, Math.min(rows.length - 1, current + step));
    const row = rows[place];
    if (row === undefined) return;
    setAt(name(row));
    body.current?.rows[place]?.scrollIntoView({ block: "nearest" });
  }
  function toggle(place: number, range = false) {
    const row = rows[place];
    if (ticks === undefined || row === undefined || locked?.(row)) return;
    const chosen = new Set(ticks.chosen);
    const start = rows.findIndex((one) => name(one) === from.current);
    if (range && start >= 0) {
      const [low, high] = [Math.min(start, place), Math.max(start, place)];
      for (const one of rows.slice(low, high + 1)) if (locked?.(one) !== true) chosen.add(name(one));
    } else if (!chosen.delete(name(row))) chosen.add(name(row));
    from.current = name(row);
    ticks.set(chosen);
  }
  const walked = open !== undefined || ticks !== undefined;
  useKeys(
    !walked
      ? {}
      : {
          j: () => go(1),
          k: () => go(-1),
          Enter: () => {
            const row = rows[current];
            if (row !== undefined) open?.(row);
          },
          x: () => toggle(current),
          X: () => toggle(current, true),
        },
  );

  const all = free.length > 0 && free.every((row) => ticks?.chosen.has(name(row)));
  return (
    <div className="sheet">
      <table className={`cards${tall ? " tall" : ""}`} aria-label={label}>
        <thead>
          <tr>
            {ticks !== undefined && (
              <th className="tick" scope="col">
                <input
                  type="checkbox"
                  aria-label={text.common.tickPage}
                  checked={all}
                  disabled={free.length === 0}
                  onChange={() => ticks.set(all ? new Set() : new Set(free.map(name)))}
                />
              </th>
            )}
            {columns.map((column) => (
              <th key={column.title} scope="col" className={column.right ? "right" : undefined}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {rows.map((row, place) => {
            const key = name(row);
            const chosen = ticks?.chosen.has(key) === true;
            return (
              <tr
                key={key}
                className={`${chosen ? "selected" : ""}${place === current ? " current" : ""}`}
                aria-selected={ticks === undefined ? undefined : chosen}
              >
                {ticks !== undefined && (
                  <td className="tick">
                    <input
                      type="checkbox"
                      aria-label={`${text.common.tickRow}: ${key}`}
                      checked={chosen}
                      disabled={locked?.(row)}
                      onChange={() => undefined}
                      onClick={(event) => toggle(place, event.shiftKey)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td
                    key={column.title}
                    data-label={column.lead || column.wide ? undefined : column.title}
                    className={
                      column.right ? "right" : column.wide ? "wide" : column.breaks ? "breaks" : undefined
                    }
                  >
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

/** Two lines in one cell: what, and what of it. */
export function Two({ children, under }: { children: ReactNode; under: ReactNode }) {
  return (
    <div className="two">
      <span>{children}</span>
      <span className="under">{under}</span>
    </div>
  );
}
