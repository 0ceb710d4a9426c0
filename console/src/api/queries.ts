/** What pages ask for, by name; each is asked again when something changes. */
import {
  keepPreviousData,
  type QueryKey,
  queryOptions,
  useMutation,
  useQueryClient,
} from "@tanstack/react-query";
import { client, got, Problem, type Shapes } from "./client";
import { held } from "./live";

export type Now = Shapes["NowShape"];
export type Group = Shapes["MetGroup"];
export type Plan = Shapes["Plan"];
export type Letter = Shapes["DeadLetter"];
export type Task = Shapes["TaskShape"];
export type Listed = Shapes["Listed"];
export type Entry = Shapes["Entry"];
export type GroupDetail = Shapes["GroupDetail"];
export type PlanDetail = Shapes["PlanDetail"];
export type Attempt = Shapes["Attempt"];
export type Limit = Shapes["LimitView"];
export type Scope = Shapes["Scope"];
export type Hours = 1 | 6 | 24 | 168;

/** Which dead letters: the members of the API's filter that the console uses. */
export interface Filter {
  group?: string;
  jobKind?: string;
  subject?: string;
  traceId?: string;
  queue?: string;
  errorCode?: string;
  deadReason?: Shapes["DeadReason"];
  since?: string;
  until?: string;
}

export const me = queryOptions({
  queryKey: ["me"],
  queryFn: () => got(client.GET("/api/me")),
  staleTime: Number.POSITIVE_INFINITY,
});

export const now = (hours: Hours) =>
  queryOptions({
    queryKey: ["now", hours],
    queryFn: () => got(client.GET("/api/now", { params: { query: { hours } } })),
    placeholderData: keepPreviousData,
  });

export const groups = queryOptions({
  queryKey: ["groups"],
  queryFn: () => got(client.GET("/api/groups", { params: { query: { limit: 200 } } })),
});

export const group = (fingerprint: string) =>
  queryOptions({
    queryKey: ["group", fingerprint],
    queryFn: () => got(client.GET("/api/groups/{fingerprint}", { params: { path: { fingerprint } } })),
  });

export const letters = (filter: Filter, limit: number, before?: string) =>
  queryOptions({
    queryKey: ["letters", filter, limit, before],
    queryFn: () =>
      got(client.GET("/api/tasks/dead-letters", { params: { query: { ...filter, limit, before } } })),
  });

export const preview = (filter: Filter, page: number, pageSize: number) =>
  queryOptions({
    queryKey: ["preview", filter, page, pageSize],
    queryFn: () =>
      got(
        client.GET("/api/tasks/dead-letters/preview", {
          params: { query: { ...filter, page, pageSize, cancelled: false } },
        }),
      ),
  });

export const plans = queryOptions({
  queryKey: ["plans"],
  queryFn: () => got(client.GET("/api/plans", { params: { query: { limit: 200 } } })),
});

export const plan = (id: string) =>
  queryOptions({
    queryKey: ["plan", id],
    queryFn: () => got(client.GET("/api/plans/{plan_id}", { params: { path: { plan_id: id } } })),
    // A plan that goes on is looked at more often than the board changes.
    refetchInterval: (query) => (query.state.data?.plan.state === "running" && !held() ? 1_000 : false),
  });

export interface TaskQuery {
  state?: Shapes["State"];
  jobKind?: string;
  queue?: string;
  subject?: string;
  traceId?: string;
  before?: string;
}

export const tasks = (query: TaskQuery, limit: number) =>
  queryOptions({
    queryKey: ["tasks", query, limit],
    queryFn: () => got(client.GET("/api/tasks", { params: { query: { ...query, limit } } })),
  });

export const task = (id: string) =>
  queryOptions({
    queryKey: ["task", id],
    queryFn: () => got(client.GET("/api/tasks/{task_id}", { params: { path: { task_id: id } } })),
  });

export const why = (id: string) =>
  queryOptions({
    queryKey: ["why", id],
    queryFn: () => got(client.GET("/api/tasks/{task_id}/why", { params: { path: { task_id: id } } })),
  });

export interface EntryQuery {
  auditAction?: string;
  auditActor?: string;
  subject?: string;
  jobKind?: string;
  traceId?: string;
  batchId?: string;
  taskId?: string;
}

export const entries = (query: EntryQuery, page: number, pageSize: number) =>
  queryOptions({
    queryKey: ["entries", query, page, pageSize],
    queryFn: () =>
      got(
        client.GET("/api/tasks/audit-logs", {
          params: { query: { ...query, auditPage: page, auditPageSize: pageSize } },
        }),
      ),
  });

export const queues = queryOptions({ queryKey: ["queues"], queryFn: () => got(client.GET("/api/queues")) });
export const limits = queryOptions({ queryKey: ["limits"], queryFn: () => got(client.GET("/api/limits")) });
export const workers = queryOptions({
  queryKey: ["workers"],
  queryFn: () => got(client.GET("/api/workers")),
});
export const schedules = queryOptions({
  queryKey: ["schedules"],
  queryFn: () => got(client.GET("/api/schedules")),
});
export const health = queryOptions({ queryKey: ["health"], queryFn: () => got(client.GET("/api/health")) });
export const endpoints = queryOptions({
  queryKey: ["endpoints"],
  queryFn: () => got(client.GET("/api/webhooks/endpoints")),
});

/** Put one dead letter back to work; that it was not is a problem. */
export async function retried(id: string, reason: string): Promise<void> {
  const answer = await got(
    client.POST("/api/tasks/{task_id}/retry", { params: { path: { task_id: id } }, body: { reason } }),
  );
  const refused = answer.refused[id];
  if (refused !== undefined) throw new Problem(409, "", refused);
}

/** Something that is done: whatever is shown is asked for again afterwards. */
export function useAct<V, T>(act: (values: V) => Promise<T>, done?: (answer: T, values: V) => void) {
  const queries = useQueryClient();
  return useMutation<T, Error, V>({
    mutationFn: act,
    onSuccess: (answer, values) => {
      done?.(answer, values);
      void queries.invalidateQueries({
        refetchType: "active",
        predicate: (query) => changes(query.queryKey),
      });
    },
  });
}

/** Who somebody is does not change by what they do. */
function changes(key: QueryKey): boolean {
  return key[0] !== "me";
}
