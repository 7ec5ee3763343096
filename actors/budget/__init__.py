"""The budget: what may still be spent, reserved before each call and settled after it."""
