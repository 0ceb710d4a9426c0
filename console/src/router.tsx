/** Addresses: each page has one, and what it shows is in it. */
import { useQuery } from "@tanstack/react-query";
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { carry, root as mounted, Problem } from "./api/client";
import { me } from "./api/queries";
import { Bones, Empty, Failed } from "./parts/asked";
import { Entrance } from "./shell/entrance";
import { Shell } from "./shell/shell";
import { useText } from "./text";

type Words = Record<string, string | undefined>;

/** What is in an address is text; a number that was written there is text too. */
function words(found: Record<string, unknown>): Words {
  return Object.fromEntries(
    Object.entries(found).map(([name, value]) => [name, value === undefined ? undefined : String(value)]),
  );
}

function Inside() {
  const who = useQuery(me);
  if (who.error instanceof Problem && who.error.status === 401) return <Entrance />;
  if (who.data !== undefined) {
    carry(who.data.csrfToken);
    return <Shell />;
  }
  return (
    <main id="main">
      {who.error ? <Failed error={who.error} again={() => void who.refetch()} /> : <Bones />}
    </main>
  );
}

function Missing() {
  const { text } = useText();
  return <Empty icon="search" title={text.errors.notFound} />;
}

function Crashed({ error }: ErrorComponentProps) {
  const { text } = useText();
  return (
    <Empty icon="cross" title={text.errors.crashed}>
      <p>{text.errors.crashedWhy}</p>
      <p className="mono">{error instanceof Error ? error.message : String(error)}</p>
    </Empty>
  );
}

const base = createRootRoute({
  component: Inside,
  notFoundComponent: Missing,
  errorComponent: Crashed,
  validateSearch: words,
});
const page = <P extends string>(path: P, load: () => Promise<Record<string, unknown>>, name: string) =>
  createRoute({
    getParentRoute: () => base,
    path,
    component: lazyRouteComponent(load as never, name as never),
    validateSearch: words,
    errorComponent: Crashed,
  });

const routes = base.addChildren([
  page("/", () => import("./pages/now"), "NowPage"),
  page("/failures", () => import("./pages/failures"), "FailuresPage"),
  page("/failures/$fingerprint", () => import("./pages/group"), "GroupPage"),
  page("/redrive", () => import("./pages/plans"), "PlansPage"),
  page("/redrive/new", () => import("./pages/plan-new"), "NewPlanPage"),
  page("/redrive/$id", () => import("./pages/plan"), "PlanPage"),
  page("/tasks", () => import("./pages/tasks"), "TasksPage"),
  page("/tasks/$id", () => import("./pages/task"), "TaskPage"),
  page("/queues", () => import("./pages/queues"), "QueuesPage"),
  page("/workers", () => import("./pages/workers"), "WorkersPage"),
  page("/schedules", () => import("./pages/schedules"), "SchedulesPage"),
  page("/webhooks", () => import("./pages/webhooks"), "WebhooksPage"),
  page("/webhooks/$id", () => import("./pages/endpoint"), "EndpointPage"),
  page("/audit", () => import("./pages/audit"), "AuditPage"),
  page("/approvals", () => import("./pages/approvals"), "ApprovalsPage"),
  page("/health", () => import("./pages/health"), "HealthPage"),
]);

export const router = createRouter({
  routeTree: routes,
  basepath: `${mounted}/ops`,
  defaultPreload: false,
  scrollRestoration: true,
  // Words as they are: an address can be read and written by people.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== "") as [
      string,
      string,
    ][];
    const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
    return text === "" ? "" : `?${text}`;
  },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
