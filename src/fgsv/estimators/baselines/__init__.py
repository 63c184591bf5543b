"""Seven methods of others, to compare with."""
