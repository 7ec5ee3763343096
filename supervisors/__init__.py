"""Keep it alive: supervisors in the manner of OTP, and the one tree of actors that runs.

Who is restarted, how often, in what order, and what a restart has to settle before work goes on.
"""
