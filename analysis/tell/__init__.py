"""What was judged, told: in words, in report.json and on the terminal."""
