"""Reports and views of Oracle as figures of one run."""
