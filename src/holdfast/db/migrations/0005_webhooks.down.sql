drop table holdfast.webhook_attempts;
drop table holdfast.webhook_keys;
drop table holdfast.webhook_endpoints;
