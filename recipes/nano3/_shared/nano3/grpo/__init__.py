"""GRPO for the tiny model: rollouts and learning are actors of Ray; the reward is whether an answer is right."""
