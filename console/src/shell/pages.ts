/** The pages that the navigation and the keys lead to. */

export type Page =
  | "now"
  | "failures"
  | "redrive"
  | "tasks"
  | "queues"
  | "workers"
  | "schedules"
  | "webhooks"
  | "audit"
  | "approvals"
  | "health";
/** Name, path and the key after `g`. */
export const PAGES: readonly (readonly [Page, string, string])[] = [
  ["now", "/", "n"],
  ["failures", "/failures", "f"],
  ["redrive", "/redrive", "r"],
  ["tasks", "/tasks", "t"],
  ["queues", "/queues", "q"],
  ["workers", "/workers", "w"],
  ["schedules", "/schedules", "s"],
  ["webhooks", "/webhooks", "h"],
  ["audit", "/audit", "a"],
  ["approvals", "/approvals", "v"],
  ["health", "/health", "e"],
];

/** Where a page is. */
export function pathOf(page: Page): string {
  return PAGES.find(([name]) => name === page)?.[1] ?? "/";
}
