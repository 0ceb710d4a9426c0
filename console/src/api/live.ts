/** Live updates: one stream of events, held while somebody selects, answers a dialog or looks away. */
import type { QueryClient } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import { root } from "./client";

export type Hold = "person" | "selection" | "dialog" | "hidden";

interface Live {
  connected: boolean;
  holds: readonly Hold[];
  /** Dead letters that came while it was held. */
  waiting: number;
  at: number | null;
}

let state: Live = { connected: true, holds: [], waiting: 0, at: null };
const listeners = new Set<() => void>();

function set(change: Partial<Live>): void {
  state = { ...state, ...change };
  for (const tell of listeners) tell();
}

function subscribe(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

/** How the stream stands. */
export function useLive(): Live {
  return useSyncExternalStore(subscribe, () => state);
}

/** Whether updates are held now. */
export function held(): boolean {
  return state.holds.length > 0;
}

const AGAIN_SECONDS = 4;
const RESTING = new Set(["me", "health", "preview"]);
let refresh: () => void = () => undefined;
let deadBefore: number | null = null;

/** Stop updates for a reason; they go on once the last reason is gone. */
export function hold(why: Hold): void {
  if (!state.holds.includes(why)) set({ holds: [...state.holds, why] });
}

/** Take a reason back. */
export function release(why: Hold): void {
  if (!state.holds.includes(why)) return;
  set({ holds: state.holds.filter((one) => one !== why) });
  if (state.holds.length === 0) {
    set({ waiting: 0 });
    refresh();
  }
}

/** Listen for as long as the page is open. Answers how to stop. */
export function listen(queries: QueryClient): () => void {
  // What takes long, or does not change by itself, is asked for by people. What is on its way may arrive.
  refresh = () =>
    void queries.invalidateQueries(
      { refetchType: "active", predicate: (query) => !RESTING.has(String(query.queryKey[0])) },
      { cancelRefetch: false },
    );
  let source: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const open = () => {
    source = new EventSource(`${root}/api/live`);
    attend(source, () => {
      // A browser does not come back by itself once it was refused.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN_SECONDS * 1_000);
    });
  };
  open();
  const seen = () => (document.hidden ? hold("hidden") : release("hidden"));
  seen();
  document.addEventListener("visibilitychange", seen);
  return () => {
    clearTimeout(timer);
    source.close();
    document.removeEventListener("visibilitychange", seen);
  };
}

function attend(source: EventSource, lost: () => void): void {
  source.addEventListener("board", (event) => {
    const dead = (JSON.parse((event as MessageEvent<string>).data) as { totals: { failed: number } }).totals
      .failed;
    set({ connected: true, at: Date.now() });
    if (state.holds.length > 0) {
      set({ waiting: Math.max(0, dead - (deadBefore ?? dead)) });
      return;
    }
    deadBefore = dead;
    refresh();
  });
  // Nobody tells any more what changes, because the database or the stream is gone: whoever asks is told which.
  const silent = () => {
    set({ connected: false });
    if (state.holds.length === 0) refresh();
  };
  source.addEventListener("away", silent);
  source.onopen = () => set({ connected: true });
  source.onerror = () => {
    silent();
    lost();
  };
}
