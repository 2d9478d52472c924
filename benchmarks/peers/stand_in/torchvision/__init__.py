"""A stand-in for torchvision, of which Flower's PyTorch template uses three transforms."""
