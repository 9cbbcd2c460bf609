"""What the networks are trained on: data, how they are read and answered, loss and scores."""
