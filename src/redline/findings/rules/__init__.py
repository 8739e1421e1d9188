"""One module per rule, named by the cause that it recognises, in a folder by what limits the job."""
