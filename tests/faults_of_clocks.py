"""Faults of clocks: whose clock decides, and what a step of the database's leaves behind."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

CLOCKS = {
    "tick-lost-where-it-failed": Fault(
        "not_fired",
        "set failed_at = %(now)s\n",
        "set failed_at = %(now)s, next_at = %(now)s::timestamptz + interval '1 minute', caught_up_to = %(now)s\n",
    ),
    "failed-tick-counts-as-missed": Fault(
        "Cron.due", "if self.missed == Missed.SKIP and not failed:", "if self.missed == Missed.SKIP:"
    ),
    "ticks-again-after-a-step-back": Fault(
        "fired", "caught_up_to = greatest(s.caught_up_to, %(now)s), failed_at", "failed_at"
    ),
    "due-tasks-wait-for-the-clock": Fault(
        "still_due",
        "            or r.run_at <= %(before)s::timestamptz and (t.enqueued_at",
        "            or false and (t.enqueued_at",
    ),
    "backoff-of-before-the-step": Fault(
        "still_due",
        "            t.last_attempt_at > now()\n            or r.run_at",
        "            false\n            or r.run_at",
    ),
    "turns-of-before-the-step": Fault(
        "bring_back", "where o.turn > c.turn for update", "where false for update"
    ),
    "rates-of-before-the-step": Fault("bring_back", "and o.spent_until > m.most", "and false"),
    "ramps-of-before-the-step": Fault(
        "bring_back", "set resumed_at = least(b.resumed_at, c.now), unserved_at", "set unserved_at"
    ),
    "walks-of-before-the-step": Fault(
        "bring_back", "where o.due_at > c.now for update", "where false for update"
    ),
    "dead-worker-alive-for-an-hour": Fault(
        "adjust_leases",
        "        or w.lease_expires_at > now() + make_interval(secs => w.lease_seconds + 1)\n",
        "",
    ),
    "step-forward-loses-all-workers": Fault(
        "adjust_leases",
        "w.lease_expires_at <= now() and w.lease_expires_at > now() - make_interval(secs => %(forward)s::double precision)",
        "false",
    ),
    "step-forward-revives-the-dead": Fault(
        "adjust_leases",
        "w.lease_expires_at <= now() and w.lease_expires_at > now() - make_interval(secs => %(forward)s::double precision)",
        "w.lease_expires_at <= now()",
    ),
    "step-forward-times-all-out": Fault(
        "lapsed", "case when r.started_at <= %(before)s::timestamptz then", "case when false then"
    ),
    "old-step-forgives-the-late": Fault(
        "lapsed",
        "case when r.started_at <= %(before)s::timestamptz then",
        "case when %(before)s::timestamptz is not null then",
    ),
    "nobody-renews-after-a-step-forward": Fault(
        "renew",
        "where w.id = any (%(workers)s::uuid[]) and w.lost_at is null\nreturning",
        "where w.id = any (%(workers)s::uuid[]) and w.lost_at is null and w.lease_expires_at > now()\nreturning",
    ),
    "chores-of-nobody-for-an-hour": Fault(
        "take_maintenance",
        "m.expires_at <= now() or m.expires_at > now() + make_interval(secs => m.lease_seconds + 1)",
        "m.expires_at <= now()",
    ),
    "given-back-to-a-moment-of-before": Fault(
        "settle", "then least(t.run_at, clock_timestamp())\n", "then t.run_at\n"
    ),
    "retried-at-a-moment-of-before": Fault(
        "settle", "else greatest(c.now + make_interval(", "else greatest(t.run_at, c.now + make_interval("
    ),
    "due-from-a-moment-of-before": Fault(
        "due_from",
        "when t.mark = 'failed' or t.run_at <= t.enqueued_at or t.last_attempt_at > clock_timestamp() then",
        "when false then",
    ),
    "own-clock-fires-ticks": Fault(
        "Schedules.fire", '"now": now or await read_clock(conn),', '"now": now or datetime.now(UTC),'
    ),
    "own-clock-declares-ticks": Fault(
        "Schedules.declare",
        "now = now or await read_clock(conn)\n        names",
        "now = now or datetime.now(UTC)\n        names",
    ),
    "steps-not-noticed": Fault("ClockWatch._learn", "        if step is not None:\n", "        if False:\n"),
    "producers-clock-delays": Fault(
        "kinds._moment",
        "    if isinstance(moment, timedelta) and abs(moment) > DELAY_MAX:\n",
        "    if isinstance(moment, timedelta): return datetime.now().astimezone() + moment\n    if False:\n",
    ),
    "command-reads-its-own-clock": Fault(
        "options.from_now",
        "now = on_database(lambda caller: read_clock(caller.conn), migrated=False)",
        "now = datetime.now().astimezone()",
    ),
    "migration-forgets-missed-ticks": Fault(
        "0007_record.up.sql",
        "update holdfast.schedules set",
        "-- update holdfast.schedules set",
    ),
    "others-leave-failed-ticks": Fault(
        "Maintenance.turn", "await self._schedules.fire(conn, failed=True)", "pass"
    ),
    "failed-tick-kept-by-the-holder": Fault(
        "Schedules.fire", "AGAIN_SECONDS if failed else AGAIN_LAST_SECONDS", "AGAIN_SECONDS"
    ),
    "doctor-blind-to-schedules": Fault(
        "ScheduleView.is_delayed", "return self.next_at >= second", "return False"
    ),
    "pushed-ahead-stays-ahead": Fault("Schedules.correct", "!= view.next_at:", "is None:"),
}
