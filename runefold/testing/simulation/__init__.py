"""Simulation: the whole runtime on one thread, with everything that can happen drawn from a seed.

A seed draws a world (agents, tools, what a model answers), what an app and its users do in it, what
goes wrong and when, and who of those who could takes each step. After each step, everything that
must hold is looked at. The same seed gives the same run, rune by rune; one that finds something
wrong is made shorter until nothing can be left out, and told in words.

    make simulate SEEDS=2000
"""
