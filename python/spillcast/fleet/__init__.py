"""Evidence of many databases as one dataset, and which of their statements would gain most."""
