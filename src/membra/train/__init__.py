"""Networks and their training, with torch (the extra `[train]`). No other room imports this one."""
