"""Exact samplers over integers, and the key stream that feeds them.

``enclosure``  integer bounds on exp(-r), as tight as asked
``inversion``  exact inversion of a finite distribution from short random words
``laplace``    geometric and discrete Laplace
``flips``      Bernoulli(exp(-k·c))
``gaussian``   discrete Gaussian
``choice``     uniform below m, permute-and-flip, exponential mechanism
``keystream``  random words from AES-CTR
``synthetic``  seeded NumPy generators for synthetic data, never for noise
"""
