"""Faults of what is declared of kinds, and of what is shown of their tasks, to seed."""

from tests.fault import Fault

KINDS = {
    "kinds-not-declared": Fault(
        "registration.register", "kinds.declare(conn, handlers.values())", "kinds.declare(conn, [])"
    ),
    "kinds-written-again": Fault("declare_kinds", "    or not d.secrets <@ o.secrets\n", "    or true\n"),
    "secrets-of-one-release": Fault(
        "secrets_of",
        "where k.kind = any (%(kinds)s::text[])\ngroup by",
        "where k.kind = any (%(kinds)s::text[]) and k.release <> '1'\ngroup by",
    ),
    "secrets-forgotten": Fault(
        "declare_kinds",
        "    secrets = array(select distinct f.field from unnest(k.secrets || excluded.secrets)",
        "    secrets = array(select distinct f.field from unnest(excluded.secrets)",
    ),
    "kinds-pruned-in-use": Fault(
        "Declarations.prune",
        "unused -= {kind for (kind,) in await cursor.fetchall()}",
        "await cursor.fetchall()",
    ),
    "unknown-kind-shown-raw": Fault(
        "Mask.shown", "keys_only(document) if fields is None", "document if fields is None"
    ),
    "result-unmasked": Fault(
        "Mask.task",
        "for document in (view.payload, view.result)\n        )\n",
        "for document in (view.payload, view.result)\n        )\n        result = view.result\n",
    ),
    "revealed-payload-kept": Fault("tasks.reveal", "    caller.shown_once.update(shown)\n", ""),
    "answers-by-name": Fault("request._once", "token = caller.bearer.token", "token = caller.by"),
    "urls-shown-whole": Fault(
        "webhooks._shown",
        "if caller.bearer.role is Role.ADMIN else endpoint.masked()",
        "if True else endpoint",
    ),
    "outside-messages-keep-secrets": Fault(
        "HttpWorkers._verdict", "{*(declared or ()), *(own.secrets if own else ())}", "set()"
    ),
}
