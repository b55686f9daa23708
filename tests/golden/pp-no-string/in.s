%strlen n abc
%strcat s "a", 1
%substr s 1
