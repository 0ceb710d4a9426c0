"""Faults of what is declared of kinds, and of what is shown of their tasks, to seed."""

from tests.fault import Fault

DECLARATIONS = "store/declarations.sql"
MASKING = "ops/masking.py"

KINDS = {
    "kinds-not-declared": Fault(
        "runtime/register.py", "kinds.declare(conn, handlers.values())", "kinds.declare(conn, [])"
    ),
    "kinds-written-again": Fault(DECLARATIONS, "    or not d.secrets <@ o.secrets\n", "    or true\n"),
    "secrets-of-one-release": Fault(
        DECLARATIONS,
        "where k.kind = any (%(kinds)s::text[])\ngroup by",
        "where k.kind = any (%(kinds)s::text[]) and k.release <> '1'\ngroup by",
    ),
    "secrets-forgotten": Fault(
        DECLARATIONS,
        "    secrets = array(select distinct f.field from unnest(k.secrets || excluded.secrets)",
        "    secrets = array(select distinct f.field from unnest(excluded.secrets)",
    ),
    "kinds-pruned-in-use": Fault(
        "store/declarations.py",
        "unused -= {kind for (kind,) in await cursor.fetchall()}",
        "await cursor.fetchall()",
    ),
    "unknown-kind-shown-raw": Fault(
        MASKING, "keys_only(document) if fields is None", "document if fields is None"
    ),
    "result-unmasked": Fault(
        MASKING,
        "for document in (view.payload, view.result)\n        )\n",
        "for document in (view.payload, view.result)\n        )\n        result = view.result\n",
    ),
    "revealed-payload-kept": Fault("http/tasks.py", "    asked.shown_once.update(shown)\n", ""),
    "answers-by-name": Fault("http/asking.py", "token = asked.bearer.token", "token = asked.by"),
    "urls-shown-whole": Fault(
        "http/webhooks.py",
        "if asked.bearer.role is Role.ADMIN else endpoint.masked()",
        "if True else endpoint",
    ),
    "outside-messages-keep-secrets": Fault(
        "runtime/outside.py", "{*(declared or ()), *(own.secrets if own else ())}", "()"
    ),
}
