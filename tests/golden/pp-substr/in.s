%substr a "xyzw" 1
%substr b "xyzw" 4
%substr c "xyzw" 2,2
%substr d "xyzw" 2,-1
%substr e "xyzw" 2,-2
%substr f "xyzw" 9,2
%substr g "xyzw" 3,9
a b c d e f g
