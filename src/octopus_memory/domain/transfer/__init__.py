"""Export format, transcripts and reports of moves."""
