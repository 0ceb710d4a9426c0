/** What stands around every page: where one can go, which database this is, search, and what is live. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { client, got } from "../api/client";
import { hold, listen, release, useLive } from "../api/live";
import { groups, me, now, plans } from "../api/queries";
import { Icon, type IconName } from "../parts/icon";
import { useTellError } from "../parts/toast";
import { At } from "../parts/values";
import { useText } from "../text";
import { KeysHelp } from "./help";
import { type Keys, useKeys } from "./keys";
import { PAGES, type Page, pathOf } from "./pages";
import { isId, parsed, written } from "./query";
import { useTheme } from "./theme";

const GROUPS: readonly (readonly Page[])[] = [
  ["now", "failures", "redrive", "tasks"],
  ["queues", "workers", "schedules", "webhooks"],
  ["audit", "approvals", "health"],
];
const TABS: readonly Page[] = ["now", "failures", "redrive", "tasks"];

function useCurrent(): (page: Page) => boolean {
  const path = useRouterState({ select: (state) => state.location.pathname });
  return (page) =>
    pathOf(page) === "/" ? path === "/" : path === pathOf(page) || path.startsWith(`${pathOf(page)}/`);
}

export function Shell() {
  const { text } = useText();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  useEffect(() => listen(queries), [queries]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another page begins at its top
  useEffect(() => {
    setOpen(false);
    main.current?.focus({ preventScroll: true });
  }, [path]);
  const keys: Keys = {
    "?": () => setHelp(true),
    "/": () => document.querySelector<HTMLInputElement>("#search")?.focus(),
  };
  for (const [, to, key] of PAGES) keys[`g ${key}`] = () => void navigate({ to });
  useKeys(keys);
  return (
    <>
      <a className="skip" href="#main">
        {text.skip}
      </a>
      <div className="shell">
        <Nav open={open} help={() => setHelp(true)} />
        <div className="min-w-0">
          <Top />
          <main id="main" ref={main} tabIndex={-1}>
            <Outlet />
          </main>
        </div>
      </div>
      <Tabs open={open} toggle={() => setOpen(!open)} />
      {help && <KeysHelp close={() => setHelp(false)} />}
    </>
  );
}

function Nav({ open, help }: { open: boolean; help: () => void }) {
  const { text } = useText();
  const current = useCurrent();
  const seen = useQuery(now(6)).data;
  const met = useQuery(groups).data;
  const made = useQuery(plans).data;
  const hot = met?.filter((group) => group.state === "open" || group.state === "regressed").length ?? 0;
  const waiting = made?.filter((plan) => plan.shownState === "awaiting approval").length ?? 0;
  const count = (page: Page) =>
    page === "failures" && hot > 0 ? (
      <span className="count hot">{hot}</span>
    ) : page === "approvals" && waiting > 0 ? (
      <span className="count">{waiting}</span>
    ) : null;
  return (
    <nav className={`nav${open ? " open" : ""}`} aria-label={text.nav.main}>
      <Link className="brand" to="/">
        <Icon name="mark" />
        {text.brand}
      </Link>
      {GROUPS.map((pages) => (
        <ul key={pages[0]}>
          {pages.map((page) => (
            <li key={page}>
              <Link to={pathOf(page)} aria-current={current(page) ? "page" : undefined}>
                <Icon name={page as IconName} />
                {text.nav[page]}
                {count(page)}
              </Link>
            </li>
          ))}
        </ul>
      ))}
      <div className="foot">
        {seen !== undefined && (
          <>
            Holdfast {seen.holdfast}
            <br />
            {text.nav.schema(seen.database.schemaNumber)}
            <br />
          </>
        )}
        <button type="button" onClick={help}>
          <kbd>?</kbd> {text.nav.keys}
        </button>
      </div>
    </nav>
  );
}

function Tabs({ open, toggle }: { open: boolean; toggle: () => void }) {
  const { text } = useText();
  const current = useCurrent();
  return (
    <div className="tabbar">
      {TABS.map((page) => (
        <Link key={page} to={pathOf(page)} aria-current={current(page) ? "page" : undefined}>
          <Icon name={page as IconName} />
          {text.nav[page]}
        </Link>
      ))}
      <button type="button" aria-expanded={open} onClick={toggle}>
        <Icon name="more" />
        {text.nav.more}
      </button>
    </div>
  );
}

function Top() {
  const { text, language, speak } = useText();
  const [theme, change] = useTheme();
  const seen = useQuery(now(6)).data;
  const queries = useQueryClient();
  const whoever = useQuery(me).data;
  const navigate = useNavigate();
  const [asked, setAsked] = useState("");
  const tellError = useTellError();

  function search(event: FormEvent) {
    event.preventDefault();
    const words = asked.trim();
    if (isId(words)) void navigate({ to: "/tasks/$id", params: { id: words.toLowerCase() } });
    else void navigate({ to: "/tasks", search: { q: written(parsed(words)) || undefined } });
    setAsked("");
    (document.activeElement as HTMLElement | null)?.blur();
  }
  async function leave() {
    // Whoever cannot be told is asked who they are all the same.
    await got(client.DELETE("/api/session")).catch(tellError);
    await queries.resetQueries({ queryKey: ["me"] });
  }
  return (
    <header className="top">
      {seen !== undefined && (
        <span className="database" title={text.top.database}>
          {seen.environment !== "" && <span className="environment">{seen.environment}</span>}
          <span className="mono">{seen.database.name}</span>
          <span className="host">
            {seen.database.host !== null && `${seen.database.host.split("/")[0]}:${seen.database.port} · `}
            {seen.database.standby ? text.top.standby : text.top.primary}
          </span>
        </span>
      )}
      <form className="search" onSubmit={search}>
        <Icon name="search" />
        <input
          id="search"
          aria-label={text.top.search}
          placeholder={text.top.placeholder}
          autoComplete="off"
          spellCheck={false}
          value={asked}
          onChange={(event) => setAsked(event.target.value)}
        />
        <kbd>/</kbd>
      </form>
      <div className="tools">
        <LiveButton />
        <button
          type="button"
          className="icon-button"
          aria-label={text.top.toOther}
          onClick={() => speak(language === "en" ? "zh" : "en")}
        >
          {language === "en" ? "中" : "EN"}
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label={text.top.theme[theme]}
          title={text.top.theme[theme]}
          onClick={change}
        >
          <Icon name="theme" />
        </button>
        {whoever !== undefined && (
          <button
            type="button"
            className="who"
            disabled={whoever.csrfToken === null}
            title={
              whoever.csrfToken === null
                ? `${whoever.name}, ${whoever.role}`
                : text.top.leaveAs(whoever.name, whoever.role)
            }
            aria-label={
              whoever.csrfToken === null
                ? `${whoever.name}, ${whoever.role}`
                : text.top.leaveAs(whoever.name, whoever.role)
            }
            onClick={() => void leave()}
          >
            {whoever.name}
          </button>
        )}
      </div>
    </header>
  );
}

function LiveButton() {
  const { text } = useText();
  const live = useLive();
  const seen = useQuery(now(6)).data;
  const held = live.holds.filter((why) => why !== "hidden");
  if (!live.connected)
    return (
      <span className="live lost" role="status">
        <Icon name="lost" small />
        <span className="only-wide">{text.top.lost}</span>
      </span>
    );
  if (held.length > 0) {
    const selecting = held.includes("selection");
    return (
      <button
        type="button"
        className="live paused"
        title={text.top.pausedHint}
        onClick={() => release("person")}
      >
        <Icon name="pause" small />
        <span className="only-wide">{selecting ? text.top.pausedSelect(live.waiting) : text.top.paused}</span>
      </button>
    );
  }
  return (
    <button type="button" className="live" title={text.top.liveHint} onClick={() => hold("person")}>
      <span className="dot" />
      <span className="only-wide">{text.top.live}</span>
      {seen !== undefined && (
        <span className="mute only-wide">
          <At at={seen.at} /> UTC
        </span>
      )}
    </button>
  );
}
