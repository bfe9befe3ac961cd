"""The reader: text to forms that know their places, and short texts of values for messages."""
