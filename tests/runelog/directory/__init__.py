"""Tests of `runelog.directory`."""
