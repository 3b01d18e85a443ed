"""Charges: what may be charged, what each step of a charge's life needs, and whether its unit fits."""
