"""What does a live service look like, and which study fits it?"""
