delete from holdfast.api_answers;
drop table holdfast.kinds;
