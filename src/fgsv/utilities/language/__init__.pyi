# The names of this package and where they live.

from .fine_tuning import fine_tuned as fine_tuned
from .word_counts import ngram as ngram
