"""`flopsight doctor`: whether flopsight works with the torch that is installed, and what it cannot do there."""
