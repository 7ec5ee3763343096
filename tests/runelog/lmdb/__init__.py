"""Tests of `runelog.lmdb`."""
