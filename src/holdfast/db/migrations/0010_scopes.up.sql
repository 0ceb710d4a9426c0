-- What a token of workers may claim: null means every queue, and every kind, that workers over HTTP may have.

alter table holdfast.api_tokens
    add column queues text[],
    add column kinds text[],
    add constraint api_tokens_scope check (role = 'worker' or queues is null and kinds is null);
