"""The findings of audits: the record, its file, and the history of a run. The worst finding
stands."""
