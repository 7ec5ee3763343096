"""Tests of `runelog.transfer`."""
