drop table holdfast.api_answers;
drop table holdfast.api_tokens;
