"""Q-learning with networks and replay (Alg. 6, 10, 13): the only part of perstep that needs PyTorch."""
