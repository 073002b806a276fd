"""What airspeed velocity (asv) measures, see central.py."""
