"""How the embedded model's weights are made: data, target, its own answers, drafter, and how good they are."""
