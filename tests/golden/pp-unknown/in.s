%defin x
%quux
