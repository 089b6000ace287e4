"""A Lepton workspace on loopback: a strict server that really runs the jobs it is sent."""
