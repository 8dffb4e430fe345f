"""The paper's experiments: what they are (catalog), how they run (engine), what they leave (results) and show (claims)."""
