%define x x+1
x x
