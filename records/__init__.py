"""What a run and a sweep's plan are on disk: how they are written, read and told apart.

Training, sweeping and analysis stand on it. It imports no torch, and executes nothing that it
reads.
"""
