"""One file per format of a published dataset; each file has `files` and `read`."""
