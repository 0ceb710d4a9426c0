-- A night at a studio, for people to look at: half an hour after a release after which renders time out.

-- name: minutes
insert into holdfast.settled_minutes (minute, kind, ended_as, tasks, run_seconds)
select m.minute, k.kind, e.ended_as, e.tasks, e.tasks * k.mean
from generate_series(date_trunc('minute', now()) - interval '26 hours', date_trunc('minute', now()) - interval '1 minute', interval '1 minute') as m (minute)
cross join (values
    ('video.render', 126, 41.2), ('webhook.deliver', 303, 0.31), ('search.index', 192, 0.088), ('mail.send', 50, 0.42), ('report.build', 7, 18.4), ('refund.issue', 2, 0.095)
) as k (kind, rate, mean)
cross join lateral (values
    ('complete', round(k.rate * (0.93 + 0.14 * random()) * case when k.kind = 'video.render' and m.minute > now() - interval '26 minutes' then 0.72 else 1 end)),
    ('retry', round(k.rate * case when k.kind = 'video.render' and m.minute > now() - interval '26 minutes' then 0.9 else 0.012 * random() end)),
    ('fail', case when k.kind = 'video.render' and m.minute > now() - interval '26 minutes' then 30 + round(26 * random()) when random() < 0.02 * k.mean / (k.mean + 1) then 1 else 0 end)
) as e (ended_as, tasks)
where e.tasks > 0;

-- name: waiting
insert into holdfast.queue_minutes (minute, queue, waiting, oldest_seconds)
select m.minute, q.queue, case when q.queue = 'video' and m.age < 26 then q.usual + (26 - m.age) * 42 else q.usual end, case when q.queue = 'video' and m.age < 26 then (26 - m.age) * 25 else q.oldest end
from (select date_trunc('minute', now()) - make_interval(mins => a) as minute, a as age from generate_series(1, 1500) a) m
cross join (values ('video', 120, 14), ('webhooks', 38, 4), ('reports', 4, 9), ('default', 3, 1), ('search', 0, 0)) as q (queue, usual, oldest);

-- name: ready
insert into holdfast.tasks (id, enqueued_at, run_at, priority, kind, queue, payload, subject)
select holdfast.uuid7(), now(), now() - make_interval(secs => n * q.apart), 2, q.kind, q.queue, jsonb_build_object('episode', n %% 40, 'shot', n, 'resolution', '2160p'), q.subject || n %% 40
from (values ('video.render', 'video', 1912, 0.35, 'episode '), ('webhook.deliver', 'webhooks', 38, 0.1, 'customer '), ('report.build', 'reports', 4, 2.2, 'month '), ('mail.send', 'default', 3, 0.3, 'user ')) as q (kind, queue, tasks, apart, subject)
cross join lateral generate_series(1, q.tasks) n;

-- name: ready_index
insert into holdfast.ready (run_at, id, priority, queue, kind)
select t.run_at, t.id, t.priority, t.queue, t.kind from holdfast.tasks t where t.mark is null and not exists (select from holdfast.ready r where r.id = t.id) and not exists (select from holdfast.running r where r.id = t.id);

-- name: workers
with made as (
    insert into holdfast.workers (id, name, registered_at, lease_expires_at, lost_at, queues, kinds, release)
    select gen_random_uuid(), 'w-' || lpad(n::text, 2, '0'), now() - interval '29 minutes', now() + interval '1 day', case when n = 9 then now() - interval '10 minutes' end,
        array['video', 'webhooks', 'reports', 'default', 'search', 'holdfast'], array['video.render', 'webhook.deliver', 'search.index', 'mail.send', 'report.build', 'refund.issue'], '1.8.2'
    from generate_series(1, 15) n
)
insert into holdfast.releases (release, first_seen_at) values ('1.8.1', now() - interval '3 days'), ('1.8.2', now() - interval '29 minutes');

-- name: groups
insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at, ignored_until, resolved_at, owner, note)
values
    ('7c1e09b27c1e09b2', 'video.render', 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: POST /v2/jobs: no answer in <n> s', now() - interval '26 minutes', null, null, null, null),
    ('1a2b3c4d5e6f7081', 'report.build', 'transient', 'TASK_EXECUTION_FAILED', 'KeyError: ''currency''', now() - interval '12 days', null, now() - interval '2 days', 'ilya', 'Reports of accounts without a currency.'),
    ('9f8e7d6c5b4a3928', 'webhook.deliver', 'transient', 'CERTIFICATE_REFUSED', 'CertificateError: hooks.fabrikam.example expired', now() - interval '1 day', null, null, 'ilya', null),
    ('0123456789abcdef', 'search.index', 'invalid', 'TASK_PAYLOAD_INVALID', 'document_parsing_exception: field [price]', now() - interval '2 days', null, null, 'mara', null),
    ('aaaabbbbccccdddd', 'video.render', 'permanent', 'MODEL_REFUSED', 'ModelRefused: prompt refused by policy', now() - interval '40 days', now() + interval '16 days', null, 'mara', 'The customer is told; nothing to do.'),
    ('5555666677778888', 'report.build', 'transient', 'TASK_EXECUTION_FAILED', 'ReadTimeout: GET /v1/rates', now() - interval '18 days', null, now() - interval '8 days', 'jun', null);

-- name: hours
insert into holdfast.failure_hours (fingerprint, hour, failures, last_at)
select g.fingerprint, h.hour, g.often, least(now() - g.ago, h.hour + interval '59 minutes')
from generate_series(date_trunc('hour', now()) - interval '6 days', date_trunc('hour', now()), interval '1 hour') as h (hour)
cross join (values
    ('7c1e09b27c1e09b2', 900, interval '26 minutes', interval '4 seconds'), ('1a2b3c4d5e6f7081', 1, interval '50 minutes', interval '8 minutes'), ('9f8e7d6c5b4a3928', 9, interval '1 day', interval '3 minutes'),
    ('0123456789abcdef', 4, interval '2 days', interval '4 hours'), ('aaaabbbbccccdddd', 5, interval '40 days', interval '12 minutes')
) as g (fingerprint, often, since, ago)
where h.hour + interval '1 hour' > now() - g.since and h.hour <= now() - g.ago and (g.often > 1 or h.hour > now() - interval '2 hours');

-- name: group_releases
insert into holdfast.failure_releases (fingerprint, release, first_at, last_at)
values ('7c1e09b27c1e09b2', '1.8.2', now() - interval '26 minutes', now()), ('1a2b3c4d5e6f7081', '1.7.6', now() - interval '12 days', now()), ('1a2b3c4d5e6f7081', '1.8.2', now() - interval '20 minutes', now()),
    ('9f8e7d6c5b4a3928', '1.8.1', now() - interval '1 day', now()), ('9f8e7d6c5b4a3928', '1.8.2', now() - interval '20 minutes', now()), ('0123456789abcdef', '1.8.0', now() - interval '2 days', now() - interval '1 day');

-- name: dead
insert into holdfast.tasks (
    id, enqueued_at, run_at, priority, kind, queue, payload, subject, trace_id, attempts, failures, last_attempt_at,
    mark, marked_at, failed_at, dead_reason, failure_class, error_code, error_message, error_stack, fingerprint
)
select holdfast.uuid7(), now() - interval '40 minutes', now(), 2, g.kind, g.queue,
    jsonb_build_object('episode', n %% 37, 'shot', n, 'resolution', g.resolution, 'duration_s', 40 + n %% 20, 'provider', 'helio', 'callback_token', '[redacted]', 'plates', jsonb_build_array('plate_' || n || '.exr')),
    g.subject || n %% 37, md5(n::text), 5, 5, now() - make_interval(secs => n * g.apart),
    'failed', now() - make_interval(secs => n * g.apart), now() - make_interval(secs => n * g.apart), g.reason, g.class, g.code, g.message, g.stack, g.fingerprint
from (values
    ('video.render', 'video', 1284, 1.2, 'episode ', '2160p', 'max_attempts_exceeded', 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: POST /v2/jobs: no answer in 30.0 s', '7c1e09b27c1e09b2',
     E'Traceback (most recent call last):\n  File "/srv/venv/lib/python3.12/site-packages/holdfast/runtime/execute.py", line 88, in run\n    result = await handler(task)\n  File "studio/render/handler.py", line 41, in render\n    job = await provider.start(task.payload, token=task.key)\n  File "studio/render/provider.py", line 118, in start\n    response = await self.http.post("/v2/jobs", json=body, headers=headers)\n  File "/srv/venv/lib/python3.12/site-packages/httpx/_client.py", line 1859, in post\n    return await self.request(\n  File "studio/render/provider.py", line 124, in start\n    raise ProviderTimeout(f"POST /v2/jobs: no answer in {self.timeout:.1f} s") from exc\nstudio.render.provider.ProviderTimeout: POST /v2/jobs: no answer in 30.0 s'),
    ('report.build', 'reports', 49, 3600, 'month ', '1080p', 'max_attempts_exceeded', 'transient', 'TASK_EXECUTION_FAILED', 'KeyError: ''currency''', '1a2b3c4d5e6f7081', null),
    ('webhook.deliver', 'webhooks', 131, 600, 'customer ', '1080p', 'max_attempts_exceeded', 'transient', 'CERTIFICATE_REFUSED', 'CertificateError: hooks.fabrikam.example expired', '9f8e7d6c5b4a3928', null),
    ('search.index', 'search', 88, 1800, 'document ', '1080p', 'non_retryable', 'invalid', 'TASK_PAYLOAD_INVALID', 'document_parsing_exception: field [price]', '0123456789abcdef', null),
    ('video.render', 'video', 312, 7200, 'episode ', '1080p', 'non_retryable', 'permanent', 'MODEL_REFUSED', 'ModelRefused: prompt refused by policy', 'aaaabbbbccccdddd', null)
) as g (kind, queue, tasks, apart, subject, resolution, reason, class, code, message, fingerprint, stack)
cross join lateral generate_series(1, g.tasks) n;

-- name: done
insert into holdfast.task_history (id, finished_at, enqueued_at, started_at, fence, worker, attempts, polls, failures, crashes, priority, version, kind, queue, payload, result, subject)
select holdfast.uuid7(), now() - make_interval(secs => n), now() - make_interval(secs => n + 60), now() - make_interval(secs => n + 41), nextval('holdfast.fence'), gen_random_uuid(), 1, 0, 0, 0, 2, 1,
    'video.render', 'video', jsonb_build_object('episode', n %% 37, 'shot', n, 'resolution', case when n %% 17 = 0 then '2160p' else '1080p' end, 'duration_s', 20 + n %% 40, 'provider', 'helio'), '{"url": "s3://renders/7"}', 'episode ' || n %% 37
from generate_series(1, 600) n;

-- name: attempts
insert into holdfast.task_attempts (task_id, ended_at, started_at, fence, worker, ended_as, kind, reason, progress, failure_class, error_code, error_message, fingerprint)
select t.id, now() - a.ago, now() - a.ago - a.took, nextval('holdfast.fence'), (select w.id from holdfast.workers w where w.name = a.worker), a.how, 'video.render', a.reason, a.progress, a.class, a.code, a.message, null
from (select x.id from holdfast.tasks x where x.fingerprint = '7c1e09b27c1e09b2' order by x.marked_at desc limit 1) t
cross join (values
    (interval '23 minutes', interval '38 seconds', 'w-09', 'reclaim', 'its worker was lost', null::real, null, null, null),
    (interval '19 minutes', interval '30 seconds', 'w-03', 'retry', null, null, 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: POST /v2/jobs: no answer in 30.0 s'),
    (interval '16 minutes', interval '20 seconds', 'w-11', 'snooze', null, 0.12, null, null, null),
    (interval '14 minutes', interval '20 seconds', 'w-11', 'snooze', null, 0.34, null, null, null),
    (interval '12 minutes', interval '30 seconds', 'w-11', 'retry', null, null, 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: GET /v2/jobs/hx-55120: no answer in 30.0 s'),
    (interval '9 minutes', interval '14 minutes', 'w-09', 'late', 'fence 8841207, the task was at 8841602', null, null, null, null),
    (interval '4 minutes', interval '30 seconds', 'w-06', 'retry', null, null, 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: POST /v2/jobs: no answer in 30.0 s'),
    (interval '1 minutes', interval '30 seconds', 'w-04', 'fail', null, null, 'transient', 'TASK_EXECUTION_FAILED', 'ProviderTimeout: POST /v2/jobs: no answer in 30.0 s')
) as a (ago, took, worker, how, reason, progress, class, code, message);

-- name: late
insert into holdfast.settled_minutes (minute, kind, ended_as, tasks, run_seconds) values (date_trunc('minute', now() - interval '9 minutes'), 'video.render', 'late', 1, 0) on conflict do nothing;

-- name: schedules
insert into holdfast.schedules (name, kind, queue, version, expression, zone, payload, missed, most, jitter_seconds, next_at, last_tick_at, declared_at)
values ('nightly-report', 'report.build', 'reports', 1, '0 4 * * *', 'Europe/Oslo', '{}', 'one', 1, 0, now() + interval '50 minutes', now() - interval '23 hours', now() - interval '30 days'),
    ('reindex', 'search.index', 'search', 1, '*/15 * * * *', 'UTC', '{}', 'one', 1, 30, now() + interval '8 minutes', now() - interval '7 minutes', now() - interval '30 days');
