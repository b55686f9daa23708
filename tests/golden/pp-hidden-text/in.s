%if 0
%error no
"open
%bogus
%define X 1

%endif
X
