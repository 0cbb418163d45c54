"""What is known of a relation besides its columns. Algebra only: no plan, no catalog, no SQL."""

from tidegate.traits.bundle import Traits

__all__ = ["Traits"]
