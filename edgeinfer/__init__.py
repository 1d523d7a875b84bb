"""edgeinfer."""
