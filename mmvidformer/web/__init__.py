"""The page in the browser, and the process that answers it."""
