"""Decide: one folder for each entity (session, agent, turn, tool, plan …), the same files in each.

`runes` is what happened and is stored for ever, `lifecycle` is what may happen, `actor` makes it
happen. The first two are pure, so that replaying a conversation calls nothing and writes nothing.
"""
