"""What a switch of clusters finds out before it begins: facts, read and asked for, and the plan made of them."""
