"""Learners on tiles: Alg. 5, 9, 12, and Q on tiles (coder · traces · kernel · loop · agent · settings)."""
