"""What a flash cache in front of a disk would serve of recorded I/O."""
