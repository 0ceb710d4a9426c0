alter table holdfast.api_tokens
    drop constraint api_tokens_scope,
    drop column queues,
    drop column kinds;
