"""PrivHist: anonymized histograms, and what they tell of the distribution behind them."""
