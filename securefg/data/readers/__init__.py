"""One file per format that a dataset is published in; each has `files` and `read`."""
