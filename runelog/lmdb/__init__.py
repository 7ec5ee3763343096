"""LMDB environments: opened with care, and their files read without LMDB where they may be damaged.

The only package that imports lmdb. It knows pages, tables and transactions, and nothing of runes.
"""
