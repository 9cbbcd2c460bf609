"""Where a sweep's runs are run: this machine's processes, submitit, Ray."""
