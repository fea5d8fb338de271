"""Plans: which columns are perturbed by what, how columns share an epsilon, which mechanism to take."""
