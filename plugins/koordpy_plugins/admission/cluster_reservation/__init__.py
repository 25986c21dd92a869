"""Keep Koordinator's own mark of reserve pods out of pods that users create."""
