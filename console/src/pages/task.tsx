/** One task: why it does not run, its life, what happened to it, what it carries, and what can be done. */
import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { me, type Task, task as taskQuery, why } from "../api/queries";
import { Asked } from "../parts/asked";
import { Card, Head } from "../parts/card";
import { Icon } from "../parts/icon";
import { Json, STRUCK } from "../parts/json";
import { State } from "../parts/state";
import { Copy } from "../parts/values";
import { written } from "../shell/query";
import { mayAdmin, mayOperate } from "../shell/roles";
import { useText } from "../text";
import { Lifeline } from "./lifeline";
import { Acting, type Asking, Edit, Reveal, type Revealed } from "./task-acts";
import { Events } from "./task-events";
import { Counters, Facts, LastError } from "./task-facts";

export function TaskPage() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(taskQuery(id));
  return (
    <Asked query={query} rows={8}>
      {(task) => <Detailed key={task.id} task={task} />}
    </Asked>
  );
}

function Detailed({ task }: { task: Task }) {
  const { text } = useText();
  const t = text.task;
  const [asking, setAsking] = useState<Asking | null>(null);
  const role = useQuery(me).data?.role;
  const may = mayOperate(role);
  const [revealing, setRevealing] = useState(false);
  const [revealed, setRevealed] = useState<Revealed | null>(null);
  const { payload, result } = revealed ?? task;
  const hidden = JSON.stringify([payload, result]).includes(STRUCK);
  const over = task.state === "failed" || task.state === "cancelled";
  const waits = task.state === "queued" || task.state === "scheduled";
  const alive = waits || task.state === "running" || task.state === "paused";
  const cannot = !may
    ? text.common.needRole("operator")
    : over
      ? ""
      : task.state === "completed"
        ? t.itCompleted
        : t.retryWhen(text.state[task.state] ?? task.state);
  return (
    <>
      <Head
        why={cannot}
        crumb={
          <>
            <Link to="/tasks">{text.nav.tasks}</Link> /{" "}
            <Link className="mono" to="/tasks" search={{ q: written({ kind: task.kind }) }}>
              {task.kind}
            </Link>
          </>
        }
        title={
          <>
            {task.subject ?? task.kind} <State state={task.state} />
          </>
        }
        under={
          <span className="row">
            <span className="mono">{task.id}</span>
            <Copy value={task.id} /> · <span className="mono">{task.kind}</span> · {text.columns.queue}{" "}
            {task.queue}
          </span>
        }
      >
        {waits && (
          <button type="button" className="button" disabled={!may} onClick={() => setAsking("pause")}>
            <Icon name="pause" />
            {t.pause}
          </button>
        )}
        {task.state === "paused" && (
          <button type="button" className="button" disabled={!may} onClick={() => setAsking("resume")}>
            <Icon name="play" />
            {t.resume}
          </button>
        )}
        {over && (
          <button type="button" className="button" disabled={!may} onClick={() => setAsking("edit")}>
            <Icon name="edit" />
            {t.edit}
          </button>
        )}
        {alive && (
          <button type="button" className="button danger" disabled={!may} onClick={() => setAsking("cancel")}>
            {t.cancel}
          </button>
        )}
        <button
          type="button"
          className={`button${over ? " primary" : ""}`}
          disabled={!may || !over}
          onClick={() => setAsking("retry")}
        >
          <Icon name="redrive" />
          {t.retry}
        </button>
      </Head>
      {task.state !== "completed" && <Why task={task} />}
      <Lifeline task={task} />
      <div className="columns">
        <div className="stack">
          <Events task={task} />
        </div>
        <div className="stack">
          <Counters task={task} />
          {task.error != null && <LastError task={task} />}
          <Card
            title={t.payload}
            tools={
              <>
                {hidden && mayAdmin(role) && (
                  <button type="button" className="button small" onClick={() => setRevealing(true)}>
                    {t.reveal}
                  </button>
                )}
                {payload !== null && <Copy value={JSON.stringify(payload, null, 2)} />}
              </>
            }
          >
            {!task.declared && revealed === null && <p className="body mute">{t.undeclared}</p>}
            {payload === null ? <p className="body mute">{t.payloadGone}</p> : <Json value={payload} />}
          </Card>
          {result !== null && result !== undefined && (
            <Card title={t.result} tools={<Copy value={JSON.stringify(result, null, 2)} />}>
              <Json value={result} />
            </Card>
          )}
          <Facts task={task} />
        </div>
      </div>
      {revealing && <Reveal id={task.id} show={setRevealed} close={() => setRevealing(false)} />}
      {asking === "edit" && <Edit task={task} close={() => setAsking(null)} />}
      {asking !== null && asking !== "edit" && (
        <Acting act={asking} id={task.id} close={() => setAsking(null)} />
      )}
    </>
  );
}

function Why({ task }: { task: Task }) {
  const { text } = useText();
  const query = useQuery(why(task.id));
  if (query.data === undefined || query.data.length === 0) return null;
  const [first, ...rest] = query.data;
  return (
    <Card>
      <div className="body pt-4">
        <p className="row text-ink-2">
          <Icon name="info" />
          {text.task.why}
        </p>
        <p className="text-lg mt-1">{text.task.causes[first?.cause ?? ""] ?? first?.text}</p>
        {text.task.causes[first?.cause ?? ""] !== undefined && <p className="mute mt-1">{first?.text}</p>}
        {rest.map((one) => (
          <p key={one.cause} className="mute mt-1">
            {one.text}
          </p>
        ))}
      </div>
    </Card>
  );
}
