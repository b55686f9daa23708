%define A tile
%define t q
A A.A $A [A]:t.t
