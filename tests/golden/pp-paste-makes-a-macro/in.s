%define xy 7
x %+ y
