<<<<<<< HEAD
"""The stateful stages of the stream: labels arrive, skills and answers stay current."""
=======
"""The stages of the stream."""
>>>>>>> engines
