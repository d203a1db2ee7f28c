"""What a transcript exposes: the profiled Fisher geometry of its whitened rows. No epsilon in this room."""
