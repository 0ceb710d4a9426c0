/** The way of a plan, always all seven steps, with the fact of each. */
import { Icon } from "./icon";

export interface Step {
  name: string;
  fact: string;
  at: "done" | "here" | "ahead";
}

export function Rail({ steps, label }: { steps: readonly Step[]; label: string }) {
  return (
    <ol className="rail" aria-label={label}>
      {steps.map((step, place) => (
        <li
          key={step.name}
          className={step.at === "done" ? "done" : step.at === "here" ? "at" : undefined}
          aria-current={step.at === "here" ? "step" : undefined}
        >
          <span className="dot">{step.at === "done" ? <Icon name="tick" small /> : place + 1}</span>
          <span className="name block">{step.name}</span>
          <span className="under block">{step.fact}</span>
        </li>
      ))}
    </ol>
  );
}
