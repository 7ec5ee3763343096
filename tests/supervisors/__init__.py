"""Tests of the supervisors."""
