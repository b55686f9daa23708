-- The examples of README.md print what README.md says. With --write it puts in what they print now.
require("examples").suite("README.md", 2, {})
