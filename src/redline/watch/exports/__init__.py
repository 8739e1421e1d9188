"""Figures of windows for programs that draw and alert; each module imports its library when it is asked for."""
