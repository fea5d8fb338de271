"""What reports look like in Arrow, in numpy and in the working layout."""
