%xdefine l x
%xdefine l l, y
%xdefine l l, z
l
