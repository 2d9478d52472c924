"""Charts as inline SVG: colours come from the page, so light and dark are one drawing."""
