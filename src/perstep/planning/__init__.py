"""The learner that counts what it sees and plans in the model of it: counts · beliefs · plan · life · known (planning/agent.py)."""
