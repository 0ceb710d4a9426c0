"""Operations on failures: find, group and redrive them, with an audit entry for each act."""
