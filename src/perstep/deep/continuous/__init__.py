"""The learner of continuous actions: a soft actor-critic for the average reward."""
