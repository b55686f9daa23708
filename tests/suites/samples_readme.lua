-- The examples of samples/README.md print what it says. With --write it puts in what they print now.
require("examples").suite("samples/README.md", 2, {})
