"""Records to their output: JSON, terminal, figures. Pure. Records hold figures as computed; what shows them rounds."""
