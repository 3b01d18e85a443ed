"""FPA, SPA and EFPA, and Fourier transforms with a proof of how far they err."""
