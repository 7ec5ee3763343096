"""Tests of what keeps secrets out."""
