"""What every agent has, whatever its learner: verbs, checks, files, card, callbacks, many at once."""
