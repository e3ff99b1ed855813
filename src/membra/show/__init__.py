"""From rankings to what a person sees."""
