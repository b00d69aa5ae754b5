"""Models that other programs trained: Marian's and those of Hugging Face's MarianMTModel."""
