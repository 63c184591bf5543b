"""Seven published methods, for comparison."""
