"""The page in the browser, the server, and the processes that answer them."""
