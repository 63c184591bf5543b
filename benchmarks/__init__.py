"""Benchmarks that are no command of the library: `python -m benchmarks NAME`, or the targets in benchmarks.mk."""
