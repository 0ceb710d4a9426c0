/** What happened, said once in a corner; some of it can be undone there. */
import { createContext, type ReactNode, useCallback, useContext, useState } from "react";
import { useText } from "../text";
import { Icon } from "./icon";

interface Told {
  id: number;
  good: boolean;
  title: string;
  under?: string;
  undo?: () => void;
}

type Tell = (told: Omit<Told, "id">) => void;
const Telling = createContext<Tell>(() => undefined);
const SECONDS = 8;
let last = 0;

export function Toasts({ children }: { children: ReactNode }) {
  const { text } = useText();
  const [all, setAll] = useState<readonly Told[]>([]);
  const drop = useCallback((id: number) => setAll((before) => before.filter((one) => one.id !== id)), []);
  const tell = useCallback<Tell>(
    (told) => {
      last += 1;
      const id = last;
      setAll((before) => [...before.slice(-3), { ...told, id }]);
      setTimeout(() => drop(id), SECONDS * 1_000);
    },
    [drop],
  );
  return (
    <Telling value={tell}>
      {children}
      <div className="toasts" role="status">
        {all.map((one) => (
          <div key={one.id} className={`toast family-${one.good ? "green" : "red"}`}>
            <Icon name={one.good ? "done" : "cross"} />
            <div className="flex-1 min-w-0">
              <p>{one.title}</p>
              {one.under !== undefined && <p className="under">{one.under}</p>}
            </div>
            {one.undo !== undefined && (
              <button
                type="button"
                className="link"
                onClick={() => {
                  one.undo?.();
                  drop(one.id);
                }}
              >
                {text.common.undo}
              </button>
            )}
            <button
              type="button"
              className="copy"
              aria-label={text.common.close}
              onClick={() => drop(one.id)}
            >
              <Icon name="x" />
            </button>
          </div>
        ))}
      </div>
    </Telling>
  );
}

export function useTell(): Tell {
  return useContext(Telling);
}

/** Tells what was refused. */
export function useTellError(): (error: Error) => void {
  const tell = useTell();
  const { text } = useText();
  return (error) =>
    tell({
      good: false,
      title: text.errors.refused,
      under: error.message || text.errors.api,
    });
}
