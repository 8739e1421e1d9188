"""One function per verb: paths and options in, a typed result out; nothing is printed."""
