/** Health: what `holdfast doctor` asks, each with its answer and what to do. */
import { useQuery } from "@tanstack/react-query";
import { health } from "../api/queries";
import { Asked } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { At } from "../parts/values";
import { useText } from "../text";

const RANK: Record<string, number> = { bad: 0, warning: 1, good: 2 };

export function HealthPage() {
  const { text } = useText();
  const t = text.health;
  const query = useQuery(health);
  return (
    <>
      <Head title={text.nav.health} under={t.under}>
        <button type="button" className="button" onClick={() => void query.refetch()}>
          {t.again}
        </button>
      </Head>
      <Asked query={query} rows={10}>
        {(seen) => {
          const wrong = seen.findings.filter((one) => one.health !== "good");
          const bad = wrong.some((one) => one.health === "bad");
          return (
            <>
              <p className={`note family-${wrong.length === 0 ? "green" : bad ? "red" : "amber"}`}>
                <span>
                  <b>
                    {wrong.length === 0
                      ? t.allGood(seen.findings.length)
                      : t.someWrong(wrong.length, seen.findings.length)}
                  </b>{" "}
                  <At at={seen.at} />
                </span>
              </p>
              <Card>
                <Table
                  label={text.nav.health}
                  rows={seen.findings.toSorted((a, b) => (RANK[a.health] ?? 3) - (RANK[b.health] ?? 3))}
                  name={(one) => one.name}
                  columns={[
                    { title: text.columns.state, lead: true, cell: (one) => <State state={one.health} /> },
                    { title: text.columns.check, cell: (one) => one.name },
                    { title: text.columns.found, breaks: true, cell: (one) => one.found },
                    {
                      title: text.columns.advice,
                      breaks: true,
                      cell: (one) => (one.advice === "" ? <span className="zero">–</span> : one.advice),
                    },
                  ]}
                />
              </Card>
            </>
          );
        }}
      </Asked>
    </>
  );
}
