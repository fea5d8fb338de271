"""What a transform knows of the steps before it: who has perturbed, who has counted a budget, what may be repeated."""
