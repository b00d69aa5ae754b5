"""The ids of tokens that are no text."""

PAD_ID = 0
"""The id of padding."""
UNK_ID = 1
"""The id of unknown tokens."""
BOS_ID = 2
"""The id at the start of what the decoder reads."""
EOS_ID = 3
"""The id at the end of a sentence."""
