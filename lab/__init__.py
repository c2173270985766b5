"""What builders of the package need, and users of a model do not: not in the wheel."""
