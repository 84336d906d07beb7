"""Writing turns: prepare, choose the episode, append, close, index."""
