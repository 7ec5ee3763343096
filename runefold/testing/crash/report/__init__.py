"""The result of a sweep as text, JSON, JUnit XML and an HTML page."""
