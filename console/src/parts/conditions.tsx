/** The bar of a search: what is asked for as chips, and room for one more. */
import { type FormEvent, useState } from "react";
import { type Named, words } from "../shell/query";
import { useText } from "../text";
import { Icon } from "./icon";

interface Bar<N extends string> {
  id: string;
  /** What can be asked for here, in the order of the chips. */
  names: readonly N[];
  conditions: Named<N>;
  change: (conditions: Named<N>) => void;
  /** What a word without a name is. */
  bare?: N;
}

export function ConditionBar<N extends string>({ id, names, conditions, change, bare }: Bar<N>) {
  const { text } = useText();
  const [more, setMore] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const given = names.filter((name) => conditions[name]);
  function add(event: FormEvent) {
    event.preventDefault();
    const { named, rest } = words(more, names);
    if (rest.length > 0 && (bare === undefined || /^[a-z]+:/.test(rest[0] ?? ""))) {
      setWrong(text.search.notHere(rest.join(" ")));
      return;
    }
    setWrong(null);
    setMore("");
    change({
      ...conditions,
      ...(bare === undefined || rest.length === 0 ? {} : { [bare]: rest.join(" ") }),
      ...named,
    });
  }
  const drop = (name: N) => change({ ...conditions, [name]: undefined });
  return (
    <div className="field flex-1 min-w-[240px]">
      <form className="query" onSubmit={add}>
        <Icon name="search" />
        {given.map((name) => (
          <span key={name} className="chip">
            <span className="name">{name}</span>
            <span className="value">{conditions[name]}</span>
            <button
              type="button"
              aria-label={text.empty.drop(`${name}:${conditions[name]}`)}
              onClick={() => drop(name)}
            >
              <Icon name="x" small />
            </button>
          </span>
        ))}
        <input
          id={id}
          aria-label={text.search.add}
          aria-invalid={wrong !== null}
          placeholder={text.search.placeholder(
            names
              .filter((name) => !conditions[name])
              .map((name) => `${name}:`)
              .join(" "),
          )}
          autoComplete="off"
          spellCheck={false}
          value={more}
          onChange={(event) => setMore(event.target.value)}
          onKeyDown={(event) => {
            const last = given.at(-1);
            if (event.key === "Backspace" && more === "" && last !== undefined) drop(last);
          }}
        />
      </form>
      {wrong !== null && (
        <span className="wrong" role="alert">
          {wrong}
        </span>
      )}
    </div>
  );
}
