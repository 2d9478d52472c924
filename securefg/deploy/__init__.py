"""Everything that organisations need to run together: kits, rosters, policies, jobs, commands."""
