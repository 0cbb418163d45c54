"""The command line: `tidegate run|test|explain|query|tail|sql|listen|doctor`."""
