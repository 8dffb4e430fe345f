"""What to cite for an algorithm, as BibTeX: the library, the paper, and where the algorithm was written down first."""

from __future__ import annotations

from perstep.rules.lattice import Algorithm

LIBRARY = """@software{perstep,
  title = {perstep: reinforcement learning in tasks that never end},
  author = {{The perstep authors}},
  year = {2026},
  version = {VERSION}
}"""

PAPER = """@inproceedings{rojas2026differential,
  title = {A Differential Perspective on Distributional Reinforcement Learning},
  author = {Rojas, Juan Sebastian and Lee, Chi-Guhn},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  volume = {40},
  number = {30},
  pages = {25160--25167},
  year = {2026},
  doi = {10.1609/aaai.v40i30.39706}
}"""

OTHERS = {
    "Abounadi": """@article{abounadi2001learning,
  title = {Learning Algorithms for {Markov} Decision Processes with Average Cost},
  author = {Abounadi, Jinane and Bertsekas, Dimitri and Borkar, Vivek S.},
  journal = {SIAM Journal on Control and Optimization},
  volume = {40},
  number = {3},
  pages = {681--698},
  year = {2001}
}""",
    "Dabney": """@inproceedings{dabney2018distributional,
  title = {Distributional Reinforcement Learning with Quantile Regression},
  author = {Dabney, Will and Rowland, Mark and Bellemare, Marc G. and Munos, R{\\'e}mi},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2018}
}""",
    "Haarnoja": """@inproceedings{haarnoja2018soft,
  title = {Soft Actor-Critic: Off-Policy Maximum Entropy Deep Reinforcement Learning with a Stochastic Actor},
  author = {Haarnoja, Tuomas and Zhou, Aurick and Abbeel, Pieter and Levine, Sergey},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}""",
    "Hisaki": """@inproceedings{hisaki2024rvisac,
  title = {{RVI-SAC}: Average Reward Off-Policy Deep Reinforcement Learning},
  author = {Hisaki, Yukinari and Ono, Isao},
  booktitle = {International Conference on Machine Learning},
  year = {2024}
}""",
    "Mnih": """@article{mnih2015human,
  title = {Human-level control through deep reinforcement learning},
  author = {Mnih, Volodymyr and Kavukcuoglu, Koray and Silver, David and others},
  journal = {Nature},
  volume = {518},
  pages = {529--533},
  year = {2015}
}""",
    "Naik": """@article{naik2024reward,
  title = {Reward Centering},
  author = {Naik, Abhishek and Wan, Yi and Tomar, Manan and Sutton, Richard S.},
  journal = {Reinforcement Learning Journal},
  year = {2024}
}""",
    "Rummery": """@techreport{rummery1994online,
  title = {On-line {Q}-learning using connectionist systems},
  author = {Rummery, Gavin A. and Niranjan, Mahesan},
  institution = {Cambridge University Engineering Department},
  number = {CUED/F-INFENG/TR 166},
  year = {1994}
}""",
    "Sutton": """@book{sutton2018reinforcement,
  title = {Reinforcement Learning: An Introduction},
  author = {Sutton, Richard S. and Barto, Andrew G.},
  edition = {2},
  publisher = {MIT Press},
  year = {2018}
}""",
    "Wan": """@inproceedings{wan2021learning,
  title = {Learning and Planning in Average-Reward {Markov} Decision Processes},
  author = {Wan, Yi and Naik, Abhishek and Sutton, Richard S.},
  booktitle = {International Conference on Machine Learning},
  year = {2021}
}""",
    "Watkins": """@phdthesis{watkins1989learning,
  title = {Learning from Delayed Rewards},
  author = {Watkins, Christopher J. C. H.},
  school = {King's College, University of Cambridge},
  year = {1989}
}""",
    "Seijen": """@inproceedings{vanseijen2009theoretical,
  title = {A theoretical and empirical analysis of {Expected Sarsa}},
  author = {van Seijen, Harm and van Hasselt, Hado and Whiteson, Shimon and Wiering, Marco},
  booktitle = {IEEE Symposium on Adaptive Dynamic Programming and Reinforcement Learning},
  year = {2009}
}""",
}
"""A name in the source of an algorithm → its entry."""


def cite(row: Algorithm, version: str) -> str:
    """The entries for an algorithm. Discounted baselines do not need the paper."""
    own = [entry for name, entry in OTHERS.items() if name in row.source]
    paper = [] if own and "ours" not in row.source else [PAPER]
    return "\n\n".join([LIBRARY.replace("VERSION", version), *paper, *own])
