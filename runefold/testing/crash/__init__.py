"""The crash kit: kills an app at every moment, and judges what is left when it has got up again."""
