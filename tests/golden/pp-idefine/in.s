%idefine Foo 1
foo FOO Foo fooo
