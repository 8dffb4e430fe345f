"""The distribution of the reward per step that people read, what it is counted in, forecasts, and the history of a run."""
