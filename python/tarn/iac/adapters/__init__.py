"""What is in the payloads of packs: `text_pair`."""
