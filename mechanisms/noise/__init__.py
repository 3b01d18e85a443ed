"""Exact samplers over integers, and the key stream that feeds them.

``enclosure``          integer bounds on exp(-r), as tight as asked
``inversion``          exact inversion of a finite distribution from short random words
``discrete_laplace``   geometric and discrete Laplace
``bernoulli_exp``      Bernoulli(exp(-k·c)): coins that come up heads with that probability
``discrete_gaussian``  discrete Gaussian
``choice``             uniform below m, permute-and-flip, exponential mechanism
``keystream``          random words from AES-CTR
``synthetic``          seeded NumPy generators for synthetic data, never for noise
"""
