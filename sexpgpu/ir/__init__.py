"""The intermediate representation: types, graphs, their texts, and verification."""
