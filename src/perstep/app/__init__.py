"""The command line: training runs, their folders and their pictures, completion in shells."""
