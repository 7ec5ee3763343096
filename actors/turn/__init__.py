"""One turn of an agent: it asks the model, has its tools run, and asks again until all is said."""
