"""How well profiles that were sampled agree with exact ones."""
