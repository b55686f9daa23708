section sync
%macro  try 1
        if      r0, %1, 1
        nop
        endif
%endm
%macro  try2 1
        if      r0 %1 r1
        nop
        endif
%endm
        try     eq
        try     ne
        try     lt
        try     le
        try     gt
        try     ge
        try     ltu
        try     geu
        try2    ==
        try2    !=
        try2    <
        try2    <=
        try2    >
        try2    >=
        halt
