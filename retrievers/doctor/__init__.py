"""An audit of a live collection: what loses recall or breaks a run, seen before anyone tunes it. Never writes."""
