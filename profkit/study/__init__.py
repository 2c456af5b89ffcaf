"""Studies of many runs or many processes: settings tried by running them, ranks, histories and gates."""
