-- Slots no longer have a floor, so the number that it was found by goes, and its indexes with it. The primary key
-- finds the rows of a bucket, and keeps a worker from having two rows of one bucket.
alter table holdfast.slots
    drop column number,
    add primary key (bucket, worker);
