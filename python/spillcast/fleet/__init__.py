"""Years of evidence from many databases: a dataset of it, and which queries would gain most."""
