"""Data curation as the paper did it (sections 3.4.1 and 3.4.5): one schema, two pipelines, a report."""
