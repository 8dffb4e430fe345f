"""Meeting Gymnasium: the plain loop, vector environments, spaces, wrappers, the saved state of a world, ends of episodes."""

from perstep.gym.wrappers import FollowPolicy, Teleport, endless, without_time_limit

__all__ = ["FollowPolicy", "Teleport", "endless", "without_time_limit"]
