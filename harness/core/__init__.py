"""The pure core: data, tables and functions. No clock, no random numbers, no files, no sockets, no logging."""
