"""Events by HTTP: posted to an endpoint, and received from senders."""
