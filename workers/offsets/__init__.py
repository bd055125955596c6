"""Consumer offsets: what groups commit is translated, published, and applied on the other clusters."""
