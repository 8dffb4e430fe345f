"""The engine of experiments: studies and their files, engines that run them, results, ranking and search."""
