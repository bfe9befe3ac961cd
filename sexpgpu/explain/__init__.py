"""What the compiler made of a file: data first (summary), then the text for people."""
