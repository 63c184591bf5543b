"""The paper's experiments: `python -m experiments` lists them, `make reproduce` runs all of them in small."""
