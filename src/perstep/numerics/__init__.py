"""Numbers without a world: compiled code, randomness, quantiles, step sizes, scales, policies, statistics."""
