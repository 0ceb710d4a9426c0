drop table holdfast.queue_minutes;
drop table holdfast.failure_releases;
alter table holdfast.failure_deltas drop column release;
drop table holdfast.releases;
alter table holdfast.workers drop column release;
