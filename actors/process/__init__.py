"""Actors with the manners of OTP: a process, how others reach it, and how it ends."""
