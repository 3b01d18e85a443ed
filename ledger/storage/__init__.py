"""The database behind the ledger: tables, queries, the two engines, and the guard of the entries."""
