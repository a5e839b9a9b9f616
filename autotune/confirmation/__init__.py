"""Are the leaders of a study really faster than the baseline? Both are booted again, interleaved, until that is clear."""
