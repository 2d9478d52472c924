"""Privacy-utility curves: a sweep of runs and audits, gathered into what one page shows."""
