"""Everything that a script can see of how it was started."""

import sys

main = sys.modules["__main__"]
print("argv", sys.argv)
print("path", sys.path[0])
print("name", __name__, main.__name__, main.__dict__ is globals())
print("file", __file__)
print("package", __package__)
print("spec", getattr(__spec__, "name", None), getattr(__spec__, "origin", None))
print("loader", type(__loader__).__name__)
print("cached", getattr(main, "__cached__", None) is None)
print("builtins", type(__builtins__).__name__)
print("doc", __doc__)
print("dunders", sorted(name for name in globals() if name.startswith("__")))
print("torch", "torch" in sys.modules)
print("stdin", sys.stdin.readline())
