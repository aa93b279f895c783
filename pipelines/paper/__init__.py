"""The paper's experiments as a page: tables beside the paper's figures, sentences, pictures."""
