"""Faults in what keeps a flood of one key out of the way of others."""

from tests.fault import Fault

FLOODS = {
    "buckets-counted-together": Fault(
        "install_enqueue_many", "concat_ws(E'\\x1f', f.priority", "concat_ws(' ', f.priority"
    ),
    "flood-goes-to-ready": Fault("install_enqueue_many", "where p.nth > 10\n", "where p.nth > 100000\n"),
    "every-call-counts-anew": Fault(
        "install_enqueue_many", " + coalesce((in_ready ->> s.name)::integer, 0) as nth", " as nth"
    ),
    "flood-without-a-first": Fault(
        "install_enqueue_many",
        "row_number() over (partition by s.name",
        "10 + row_number() over (partition by s.name",
    ),
    "flood-starts-too-early": Fault(
        "install_enqueue_many",
        "bucket is not null and run_at <= clock and left(bucket",
        "bucket is not null and left(bucket",
    ),
    "cancelled-first-leaves-the-rest": Fault(
        "enlist_beside",
        "where t.id = any (%(ids)s::uuid[]) and t.bucket is not null",
        "where false and t.id = any (%(ids)s::uuid[])",
    ),
}
