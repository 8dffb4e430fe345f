"""What one transition does to the estimates, one function for each rule; the lattice as rows; settings that all learners share."""
