"""How does a server of the open DDTree pull request log its drafts? By a file that its interpreters load at their start."""
