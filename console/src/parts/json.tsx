/** A payload or a result, line by line; what stands in it is only ever text. */
import type { ReactNode } from "react";

export const STRUCK = "[redacted]";

function scalar(value: unknown): ReactNode {
  if (value === STRUCK) return <span className="json-struck">{STRUCK}</span>;
  if (typeof value === "string") return <span className="json-text">{JSON.stringify(value)}</span>;
  if (typeof value === "number") return <span className="json-number">{String(value)}</span>;
  return <span className="json-word">{String(value)}</span>;
}

/** Its lines, each in pieces. */
function written(value: unknown, depth: number, before: string, after: string, lines: ReactNode[][]): void {
  const pad = "  ".repeat(depth) + before;
  const members: [string, unknown][] | null = Array.isArray(value)
    ? value.map((one) => ["", one])
    : typeof value === "object" && value !== null
      ? Object.entries(value).map(([name, inner]) => [`${JSON.stringify(name)}: `, inner])
      : null;
  const [opens, closes] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (members === null || members.length === 0) {
    lines.push([pad, members === null ? scalar(value) : opens + closes, after]);
    return;
  }
  lines.push([pad + opens]);
  members.forEach(([name, inner], place) => {
    written(inner, depth + 1, name, place < members.length - 1 ? "," : "", lines);
  });
  lines.push(["  ".repeat(depth) + closes + after]);
}

export function Json({ value }: { value: unknown }) {
  const lines: ReactNode[][] = [];
  written(value, 0, "", "", lines);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reached by keyboard
    <section className="code" tabIndex={0} aria-label="JSON">
      <ol>
        {lines.map((pieces, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a line is its place
          <li key={place}>
            <span>{place + 1}</span>
            <span>
              {pieces.map((piece, nth) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: as above
                <span key={nth}>{piece}</span>
              ))}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
