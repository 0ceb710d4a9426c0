alter table holdfast.maintenance drop column lease_seconds;
alter table holdfast.schedules drop column failed_at, drop column caught_up_to;
