/** The keyboard: one table of keys for what is on the screen; nothing happens while somebody types. */
import { useEffect, useRef } from "react";

export type Keys = Record<string, () => void>;

const layers: { current: Keys }[] = [];
let leader: string | null = null;
let led = 0;
const LEADER_SECONDS = 1.5;

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    (["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) &&
      (target as HTMLInputElement).type !== "checkbox")
  );
}

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  // A button or a link has its own Enter.
  if (
    event.key === "Enter" &&
    event.target instanceof HTMLElement &&
    ["A", "BUTTON", "SUMMARY"].includes(event.target.tagName)
  )
    return;
  const afterLeader = leader !== null && performance.now() - led < LEADER_SECONDS * 1_000;
  const key = afterLeader ? `${leader} ${event.key}` : event.key;
  leader = null;
  for (const layer of layers.toReversed()) {
    const act = layer.current[key];
    if (act !== undefined) {
      event.preventDefault();
      act();
      return;
    }
  }
  if (event.key === "g" && !afterLeader) {
    leader = "g";
    led = performance.now();
  }
}

/** Keys for as long as this is on the screen; what is on top is asked first. */
export function useKeys(keys: Keys): void {
  const table = useRef(keys);
  table.current = keys;
  useEffect(() => {
    if (layers.length === 0) document.addEventListener("keydown", pressed);
    layers.push(table);
    return () => {
      layers.splice(layers.indexOf(table), 1);
      if (layers.length === 0) document.removeEventListener("keydown", pressed);
    };
  }, []);
}
