"""From reports, or values, to rows of estimates per window and key."""
