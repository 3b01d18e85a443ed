"""Post-processing: consistency, non-negativity, rounding, margins."""
