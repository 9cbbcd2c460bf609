"""From runs to verdicts: hyper is selected, arms are compared, audited and judged."""
