"""Rules about actors with the manners of OTP."""
