%define E
a E b,E
