/** States: one glyph, one word and one colour for each, wherever it is shown. */
import { useText } from "../text";
import { Icon, type IconName } from "./icon";

export type Family = "red" | "amber" | "green" | "blue" | "grey" | "line";

const STATES: Record<string, [Family, IconName]> = {
  queued: ["grey", "ring"],
  scheduled: ["line", "clock"],
  running: ["blue", "running"],
  completed: ["green", "done"],
  failed: ["red", "cross"],
  cancelled: ["line", "slash"],
  paused: ["amber", "pause"],
  open: ["red", "warn"],
  ignored: ["line", "ignored"],
  resolved: ["green", "tick"],
  regressed: ["amber", "regressed"],
  frozen: ["line", "lock"],
  awaiting_approval: ["amber", "approvals"],
  canary: ["blue", "running"],
  stopped: ["red", "stop"],
  finished: ["green", "tick"],
  aborted: ["line", "slash"],
  expired: ["line", "clock"],
  alive: ["green", "tick"],
  lost: ["red", "lost"],
  enabled: ["green", "tick"],
  disabled: ["amber", "pause"],
  good: ["green", "tick"],
  warning: ["amber", "warn"],
  bad: ["red", "cross"],
};

export function familyOf(state: string): Family {
  return STATES[state]?.[0] ?? "line";
}

export function iconOf(state: string): IconName {
  return STATES[state]?.[1] ?? "ring";
}

export function State({ state, bare = false }: { state: string; bare?: boolean }) {
  const { text } = useText();
  // Words of the server come with blanks or with underlines.
  const key = state.replaceAll(" ", "_");
  return (
    <span className={`pill family-${familyOf(key)}${bare ? " bare" : ""}`}>
      <Icon name={iconOf(key)} small />
      {text.state[key] ?? state}
    </span>
  );
}
