"""Evidence as people have it: one front door from files to what they tell of a run."""
