%define p q p
%define q p q p
p
q
