"""What differs between operating systems: processors, memory, signals, folders and standard streams, each in one module.

Each function works on Linux, macOS and Windows. Where a system lacks a call, the function has a fallback and says which.
"""
