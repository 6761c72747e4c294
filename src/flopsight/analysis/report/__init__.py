"""The data of the report page."""
