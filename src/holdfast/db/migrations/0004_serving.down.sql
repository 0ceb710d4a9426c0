drop table holdfast.api_sessions;
drop table holdfast.samples;
drop table holdfast.settled_totals;
alter table holdfast.workers drop column token, drop column lease_seconds;
