"""The data folder: its layout, the insert log, the step log and the ledger."""
