/** A question before something is done: what it does to how many, why, and what the safe answer keeps. */
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Problem } from "../api/client";
import { hold, release } from "../api/live";
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

interface Asks {
  title: string;
  effects?: readonly (readonly [IconName, string])[];
  /** What the button says; the same verb as in the title. */
  act: string;
  /** What the safe button says is kept. */
  keep?: string;
  danger?: boolean;
  /** Must be typed before it can be done. */
  typed?: string;
  reason?: "needed" | "wanted" | "none";
  children?: ReactNode;
  ready?: boolean;
  onAct: (reason: string) => Promise<unknown>;
  onClose: () => void;
}

export function Dialog({
  title,
  effects,
  act,
  keep,
  danger = false,
  typed,
  reason = "needed",
  children,
  ready = true,
  onAct,
  onClose,
}: Asks) {
  const { text } = useText();
  const box = useRef<HTMLDialogElement>(null);
  const name = useId();
  const [why, setWhy] = useState("");
  const [word, setWord] = useState("");
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<Error | null>(null);

  useEffect(() => {
    // It holds focus by itself, and gives it back.
    box.current?.showModal();
    hold("dialog");
    return () => release("dialog");
  }, []);

  const missing = typed === undefined || word === typed ? null : typed.length - word.length;
  const unsaid = reason === "needed" && why.trim() === "";
  const open = ready && !busy && !unsaid && (typed === undefined || word === typed);

  async function submit(event: FormEvent) {
    event.preventDefault();
    if (!open) return;
    setBusy(true);
    setWrong(null);
    try {
      await onAct(why.trim());
      // Closed rather than taken away, so that focus goes back to where it was.
      box.current?.close();
    } catch (error) {
      setWrong(error as Error);
      setBusy(false);
    }
  }

  return (
    <dialog
      ref={box}
      aria-labelledby={name}
      onClose={onClose}
      onCancel={(event) => busy && event.preventDefault()}
    >
      <form onSubmit={submit}>
        <h2 id={name}>{title}</h2>
        <div className="inner">
          {effects !== undefined && (
            <ul className="effects">
              {effects.map(([icon, effect]) => (
                <li key={effect}>
                  <Icon name={icon} />
                  <span>{effect}</span>
                </li>
              ))}
            </ul>
          )}
          {children}
          {reason !== "none" && (
            <div className="field">
              <label htmlFor={`${name}-why`}>{text.common.reason}</label>
              <textarea
                id={`${name}-why`}
                className="input"
                rows={2}
                maxLength={2_000}
                value={why}
                onChange={(event) => setWhy(event.target.value)}
              />
              <span className="hint">{text.common.reasonHint}</span>
            </div>
          )}
          {typed !== undefined && (
            <div className="field">
              <label htmlFor={`${name}-word`}>{text.dialog.type(typed)}</label>
              <input
                id={`${name}-word`}
                className="input mono"
                autoComplete="off"
                value={word}
                onChange={(event) => setWord(event.target.value)}
              />
            </div>
          )}
          {wrong !== null && (
            <p className="note family-red" role="alert">
              <Icon name="cross" />
              {wrong instanceof Problem ? wrong.detail || wrong.title || text.errors.api : wrong.message}
            </p>
          )}
        </div>
        <footer>
          <span className="why mr-auto">
            {unsaid
              ? text.common.needReason
              : missing === null
                ? ""
                : missing > 0
                  ? text.dialog.missing(missing)
                  : text.dialog.differs}
          </span>
          <button type="button" className="button" onClick={() => box.current?.close()}>
            {keep ?? text.common.keep}
          </button>
          <button type="submit" className={`button ${danger ? "danger solid" : "primary"}`} disabled={!open}>
            {act}
          </button>
        </footer>
      </form>
    </dialog>
  );
}
