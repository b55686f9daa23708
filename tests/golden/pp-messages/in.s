%define v 3
%error bad v, "x y"
%error "only \"this\""
%warning careful
%note see
%fatal stop
x
