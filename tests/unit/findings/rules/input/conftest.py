"""What tests of rules about loading share."""

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
