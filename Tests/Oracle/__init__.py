"""A judge of the whole system that knows nothing of its books and shares no code with it (docs/oracle.md)."""
