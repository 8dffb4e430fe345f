"""Learners on tables: Alg. 1 to 4, 7, 8, 11 (kernel · loop · agent · settings)."""
