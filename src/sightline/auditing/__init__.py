"""The main job: a plan in, who is exposed and how sharply out."""
