"""Main: appends the batches of its streams beside the leading broker and confirms them."""
