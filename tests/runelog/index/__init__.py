"""Tests of `runelog.index`."""
