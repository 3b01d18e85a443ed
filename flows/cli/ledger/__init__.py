"""``tabularium ledger …``: what officers, reviewers and operators do with the ledger."""
