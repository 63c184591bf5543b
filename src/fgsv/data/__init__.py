"""Tables: from a file to a data set to a game."""
