"""``tabularium ledger …``: the commands of officers, reviewers and operators."""
