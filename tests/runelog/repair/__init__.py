"""Tests of `runelog.repair`."""
