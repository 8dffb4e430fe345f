"""Figures: one function each, named for what it shows; they read results, never agents, and publish finished files."""
