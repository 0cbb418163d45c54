"""Files in a folder that grows: parquet, CSV or JSON lines."""
