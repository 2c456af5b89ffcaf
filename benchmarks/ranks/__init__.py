"""How often ``profkit ranks`` names the late rank of an MPI job, its wait state, and why it was late."""
