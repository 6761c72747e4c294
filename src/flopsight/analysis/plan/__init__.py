"""What a job would take on a mesh, by arithmetic: meshes to try, memory by kind, a predicted step, words."""
