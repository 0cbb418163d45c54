"""What each stateful operator is configured with: plain immutable data that kernels, plans and circuits share."""
