"""``tabularium demo``: the whole story on synthetic people, told by the commands themselves."""
