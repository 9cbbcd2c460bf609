"""How a sweep's runs happen: composed, planned, run, resumed."""
