/** The latest dead letters, by subject, kind and trace; one can be retried here, many by a plan. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { type Filter, letters, me } from "../api/queries";
import { Asked, Empty } from "../parts/asked";
import { Card } from "../parts/card";
import { Icon } from "../parts/icon";
import { useLetterColumns } from "../parts/letters";
import { Table } from "../parts/table";
import { written } from "../shell/query";
import { mayOperate } from "../shell/roles";
import { useText } from "../text";
import { Acting } from "./task-acts";

const SHOWN = 10;
const FIELDS = ["subject", "jobKind", "traceId"] as const;

export function Latest() {
  const { text } = useText();
  const columns = useLetterColumns();
  const t = text.now;
  const navigate = useNavigate();
  const search = useSearch({ strict: false });
  const filter: Filter = {
    subject: search.subject ?? search.episodeId,
    jobKind: search.jobKind,
    traceId: search.traceId,
  };
  const query = useQuery(letters(filter, SHOWN));
  const may = mayOperate(useQuery(me).data?.role);
  const [retrying, setRetrying] = useState<string | null>(null);
  const asked = written({ subject: filter.subject, kind: filter.jobKind, trace: filter.traceId });
  function ask(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const words = Object.fromEntries(
      FIELDS.map((name) => [name, String(given.get(name) ?? "").trim() || undefined]),
    );
    void navigate({ to: "/", search: { hours: search.hours, ...words } });
  }
  const names = { subject: text.columns.subject, jobKind: text.columns.kind, traceId: text.task.trace };
  return (
    <Card
      title={t.latest}
      tools={
        <Link className="link" to="/redrive/new" search={{ q: asked || undefined }}>
          {t.latestRedrive}
        </Link>
      }
    >
      <form className="body row" key={asked} onSubmit={ask}>
        {FIELDS.map((name) => (
          <input
            key={name}
            name={name}
            className="input flex-1 min-w-[100px]"
            aria-label={names[name]}
            placeholder={names[name]}
            defaultValue={filter[name] ?? ""}
          />
        ))}
        <button type="submit" className="button">
          {t.filter}
        </button>
        {!may && <span className="why">{text.common.needRole("operator")}</span>}
      </form>
      <Asked query={query}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title={text.empty.deadTitle}>
              {asked === "" ? text.empty.dead : text.plans.nothingFits}
            </Empty>
          ) : (
            <Table
              label={t.latest}
              rows={page.items}
              name={(letter) => letter.id}
              columns={[
                ...columns.who,
                ...columns.said,
                ...columns.died,
                {
                  title: text.queues.act,
                  right: true,
                  cell: (letter) => (
                    <button
                      type="button"
                      className="button small"
                      disabled={!may}
                      onClick={() => setRetrying(letter.id)}
                    >
                      <Icon name="redrive" small />
                      {text.task.retry}
                    </button>
                  ),
                },
              ]}
            />
          )
        }
      </Asked>
      {retrying !== null && <Acting act="retry" id={retrying} close={() => setRetrying(null)} />}
    </Card>
  );
}
