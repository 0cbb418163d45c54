"""From the flags and the YAML file of `tidegate listen` to a pipeline that runs."""
