"""The database behind the ledger: tables, queries, the two engines, and what guards the entries."""
