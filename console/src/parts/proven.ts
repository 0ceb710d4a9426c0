/** Who was proven to act, beside the name in an entry. */
import type { Entry } from "../api/queries";
import type { Text } from "../text";

/** Who asked, the database login, and where the request came from; undefined for entries without an identity. */
export function proven(entry: Entry, text: Text): string | undefined {
  const login = entry.login === null ? undefined : text.audit.provenLogin(entry.login);
  const known = [by(entry.token, text), login].filter(Boolean);
  return known.length === 0 ? undefined : [...known, entry.address].filter(Boolean).join(" · ");
}

/** Of a token, a person behind a proxy, or code that acted by itself. */
function by(token: string | null, text: Text): string | undefined {
  const t = text.audit;
  if (token === null) return undefined;
  if (token.startsWith("holdfast:")) return t.provenCode(token);
  return token.startsWith("proxy:") ? t.provenProxy(token.slice("proxy:".length)) : t.provenToken(token);
}
