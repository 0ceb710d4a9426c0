/** The columns in which dead letters are listed, wherever that is. */
import type { Letter } from "../api/queries";
import { useText } from "../text";
import type { Column } from "./table";
import { At, TaskLink } from "./values";

type Named = Pick<Letter, "id" | "kind" | "subject" | "error" | "diedAt">;

/** Which task it is, what it says, and when it died. */
export function useLetterColumns(): Record<"who" | "said" | "died", readonly Column<Named>[]> {
  const { text } = useText();
  return {
    who: [
      { title: text.columns.task, lead: true, cell: (letter) => <TaskLink id={letter.id} /> },
      { title: text.columns.kind, cell: (letter) => <span className="mono">{letter.kind}</span> },
      {
        title: text.columns.subject,
        breaks: true,
        cell: (letter) => letter.subject ?? <span className="zero">–</span>,
      },
    ],
    said: [
      {
        title: text.columns.error,
        wide: true,
        cell: (letter) => (
          <span className="clip block" title={letter.error ?? ""}>
            {letter.error ?? "–"}
          </span>
        ),
      },
    ],
    died: [{ title: text.columns.failedAt, right: true, cell: (letter) => <At at={letter.diedAt} /> }],
  };
}
