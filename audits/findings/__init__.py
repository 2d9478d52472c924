"""What audits found: the record, its file, the history of a run. The worst finding stands."""
