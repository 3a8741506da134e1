"""What a traced call does besides returning: writes, reports, output, errors."""
