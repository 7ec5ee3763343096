"""Tests of `runelog.stream`."""
