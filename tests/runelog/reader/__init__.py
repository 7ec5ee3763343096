"""Tests of `runelog.reader`."""
