"""From a folder, a table or a IIIF manifest to fragments and their images: reading, fetching, decoding safely."""
