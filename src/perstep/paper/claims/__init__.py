"""The paper's claims about its experiments, each with the check that judges it from result files. Nothing runs here."""
