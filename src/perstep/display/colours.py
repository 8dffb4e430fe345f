"""The colours of all figures (Okabe and Ito 2008): distinct for colour-blind readers, in print too."""

from __future__ import annotations

GREY, BLUE, ORANGE, GREEN, BLACK = "#777777", "#0072B2", "#D55E00", "#009E73", "#000000"
