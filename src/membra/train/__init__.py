"""Networks and how they are trained, with torch (the extra `[train]`). Nothing that runs membra comes here."""
