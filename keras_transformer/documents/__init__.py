"""Documents of several formats, whose texts are translated in place."""
