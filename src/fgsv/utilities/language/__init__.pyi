# The names of this package and where they live.

from .word_counts import ngram as ngram
