/** Searches as people write them: `kind:video.render state:failed subject:"episode 7"`. */
export const QUALIFIERS = ["kind", "state", "queue", "subject", "trace", "group", "code", "reason"] as const;
export type Qualifier = (typeof QUALIFIERS)[number];
export type Named<N extends string> = Partial<Record<N, string | undefined>>;
export type Conditions = Named<Qualifier>;

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const WORD = /(?:([a-z]+):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g;

/** Whether this is a task's id. */
export function isId(text: string): boolean {
  return ID.test(text.trim());
}

/** The values in a text by their names; what has none, or one that is not known, is left over. */
export function words<N extends string>(
  text: string,
  names: readonly N[],
): { named: Named<N>; rest: string[] } {
  const named: Named<N> = {};
  const rest: string[] = [];
  for (const match of text.matchAll(WORD)) {
    const value = match[2] !== undefined ? match[2].replaceAll(/\\(.)/g, "$1") : (match[3] ?? "");
    const name = names.find((one) => one === match[1]);
    if (name !== undefined) named[name] = value;
    else rest.push(match[1] === undefined ? value : `${match[1]}:${value}`);
  }
  return { named, rest };
}

/** The text of named values, which `words` understands. */
export function phrase<N extends string>(names: readonly N[], values: Named<N>): string {
  return names
    .filter((name) => values[name])
    .map((name) => {
      const value = values[name] ?? "";
      return `${name}:${/^[^\s"\\]+$/.test(value) ? value : `"${value.replaceAll(/(["\\])/g, "\\$1")}"`}`;
    })
    .join(" ");
}

/** The conditions of a search for tasks; words without a name are a subject. */
export function parsed(text: string): Conditions {
  const { named, rest } = words(text, QUALIFIERS);
  return rest.length > 0 ? { subject: rest.join(" "), ...named } : named;
}

/** The text of conditions, which `parsed` understands. */
export function written(conditions: Conditions): string {
  return phrase(QUALIFIERS, conditions);
}
