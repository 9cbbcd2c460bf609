"""What is learned: the network, the token mixers, and the slots of attention."""
