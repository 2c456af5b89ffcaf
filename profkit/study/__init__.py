"""Many runs: the settings of a command studied by running it, and the processes of a job against each other."""
