"""Faults of the HTTP API to seed: who may, what is answered twice, what waits that must not."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

TOKENS = "ops/tokens.py"

HTTP = {
    "anybody-may": Fault("http/access.py", "return _RANK[bearer.role] >= _RANK[least_role]", "return True"),
    "workers-may-operate": Fault(
        "http/access.py", "return bearer.role is least_role", "return bearer.role is Role.WORKER"
    ),
    "secret-not-compared": Fault(
        TOKENS, "not hmac.compare_digest(bytes(kept), _hash(secret)) or expired", "expired"
    ),
    "expired-tokens-are-good": Fault(TOKENS, "or expired or revoked", "or revoked"),
    "revoked-tokens-are-good": Fault(TOKENS, "or expired or revoked", "or expired"),
    "answers-not-kept": Fault("http/asking.py", "if key is None:", "if True:"),
    "keys-for-anything": Fault("http/asking.py", "if before.asked != hashed:", "if False:"),
    "alias-of-subject-ignored": Fault("http/tasks.py", "subject=subject or episode_id", "subject=subject"),
    "acts-of-nobody": Fault(
        "http/service.py",
        "return DeadLetters(self.settings, self.service.listen, by=self.by",
        'return DeadLetters(self.settings, self.service.listen, by="api"',
    ),
    "preview-pages-overlap": Fault("http/dead.py", "offset=only.offset", "offset=0"),
    "dry-run-acts": Fault("http/dead.py", "if act.dry_run:", "if False:"),
    "board-without-acts": Fault(
        "http/board.py",
        "EntryFilter(action=audit_action, actor=audit_actor)",
        'EntryFilter(action="nothing")',
    ),
    "export-as-a-page": Fault(
        "http/audit.py", "media_type=_MEDIA_TYPES[only.format]", 'media_type="text/html"'
    ),
    "batch-waits-for-a-worker": Fault(
        "http/dead.py",
        "    await Driver(asked.settings, asked.handlers, asked.service.listen).send_all(asked.conn, plan.id)\n",
        "",
    ),
}
