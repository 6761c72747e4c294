"""What flopsight attaches to torch, and every private torch API that it uses."""
