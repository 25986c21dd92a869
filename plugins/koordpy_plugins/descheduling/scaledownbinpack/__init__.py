"""ScaleDownBinPack: rank pods so that a scale-down empties nodes."""
