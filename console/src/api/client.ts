/** The one door to the API: typed by its document, with the session's word and a key for every act. */
import createClient from "openapi-fetch";
import type { components, paths } from "./document";

export type Shapes = components["schemas"];

/** Where the API is mounted, as the server wrote it into the page. */
export const root = document.documentElement.dataset.root ?? "";

/** What the API refused, or could not do, in its own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail || title);
  }

  /** The database is away: the API says so itself. */
  get away(): boolean {
    return this.status === 503 && this.detail.includes("cannot be reached");
  }
}

let csrf: string | null = null;

/** The word that every act of this session carries. */
export function carry(word: string | null): void {
  csrf = word;
}

function fresh(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

export const client = createClient<paths>({ baseUrl: root, credentials: "same-origin" });
client.use({
  onRequest({ request }) {
    if (request.method === "GET") return;
    // Sent twice by a weak network, it is done once.
    request.headers.set("Idempotency-Key", fresh());
    if (csrf !== null) request.headers.set("X-CSRF-Token", csrf);
  },
});

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What was answered, or the problem as an exception. */
export async function got<T>(asked: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await asked;
  } catch {
    throw new Problem(0, "", "");
  }
  const { data, error, response } = answer;
  if (response.ok) return data as T;
  const said = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const wrong = Array.isArray(said.wrong) && said.wrong.length > 0 ? `: ${said.wrong.join("; ")}` : "";
  throw new Problem(
    response.status,
    String(said.title ?? response.statusText),
    `${String(said.detail ?? "")}${wrong}`,
  );
}
