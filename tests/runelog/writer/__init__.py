"""Tests of `runelog.writer`."""
