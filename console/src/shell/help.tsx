import { useEffect, useRef } from "react";
import { hold, release } from "../api/live";
import { useText } from "../text";
import { PAGES } from "./pages";

/** All keys. */
export function KeysHelp({ close }: { close: () => void }) {
  const { text } = useText();
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    box.current?.showModal();
    hold("dialog");
    return () => release("dialog");
  }, []);
  const rows: [string[], string][] = [
    [["/"], text.top.search],
    ...PAGES.map(([page, , key]): [string[], string] => [["g", key], text.nav[page]]),
    [["j", "k"], text.common.move],
    [["Enter"], text.common.openRow],
    [["x"], text.common.tick],
    [["Shift", "x"], text.help.range],
    [["?"], text.help.title],
  ];
  return (
    <dialog ref={box} onClose={close} aria-labelledby="keys-title">
      <h2 id="keys-title">{text.help.title}</h2>
      <dl className="inner facts">
        {rows.map(([keys, what]) => (
          <div key={what} className="contents">
            <dt className="row">
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <footer>
        <button type="button" className="button" onClick={() => box.current?.close()}>
          {text.common.close}
        </button>
      </footer>
    </dialog>
  );
}
