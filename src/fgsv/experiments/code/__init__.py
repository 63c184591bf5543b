"""Open-source projects as providers of text, valued by what a small code model learns from their files."""
