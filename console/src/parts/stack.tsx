/** A stack as Python wrote it, frame by frame; those of libraries are folded. */
interface Frame {
  file: string;
  line: string;
  name: string;
  code: string[];
}

const FRAME = /^\s*File "(.+)", line (\d+), in (.+)$/;
const LIBRARY = /(site-packages|dist-packages|lib\/python|<frozen|holdfast\/runtime)/;

/** The frames of a stack; what is no frame is left out. */
export function frames(stack: string): Frame[] {
  const found: Frame[] = [];
  for (const line of stack.split("\n")) {
    const match = FRAME.exec(line);
    if (match !== null)
      found.push({ file: match[1] ?? "", line: match[2] ?? "", name: match[3] ?? "", code: [] });
    else if (/^\s{4}/.test(line)) found.at(-1)?.code.push(line.slice(4));
  }
  return found;
}

/** Neighbours of libraries as one line. */
function folded(all: readonly Frame[]): (Frame | { library: string; count: number })[] {
  const rows: (Frame | { library: string; count: number })[] = [];
  for (const frame of all) {
    if (!LIBRARY.test(frame.file)) {
      rows.push(frame);
      continue;
    }
    const library =
      /packages\/([^/]+)/.exec(frame.file)?.[1] ?? (frame.file.includes("holdfast") ? "holdfast" : "python");
    const last = rows.at(-1);
    if (last !== undefined && "library" in last) {
      last.count += 1;
      if (!last.library.split(", ").includes(library)) last.library += `, ${library}`;
    } else rows.push({ library, count: 1 });
  }
  return rows;
}

export function Stack({
  stack,
  message,
  framesOf,
}: {
  stack: string | null;
  message: string;
  framesOf: (count: number) => string;
}) {
  const rows = folded(frames(stack ?? ""));
  return (
    <>
      {rows.length === 0 && stack && (
        <div className="frames">
          <div className="frame">
            <pre>{stack}</pre>
          </div>
        </div>
      )}
      <div className="frames">
        {rows.map((row, place) =>
          "library" in row ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: a frame is its place
            <div key={place} className="frame library">
              {row.library}, {framesOf(row.count)}
            </div>
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: a frame is its place
            <div key={place} className="frame">
              {row.file}:{row.line} in <b>{row.name}</b>
              {row.code.length > 0 && <pre>{row.code.join("\n")}</pre>}
            </div>
          ),
        )}
      </div>
      <p className="exception">{message}</p>
    </>
  );
}
