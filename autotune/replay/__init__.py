"""What would other draft trees have accepted, by the drafts that one run has logged?"""
