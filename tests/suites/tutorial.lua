-- Every listing of the tutorial runs, and every output shown is what the command prints. With --write it
-- puts in what they print now.
require("examples").suite("samples/TUTORIAL.md", 20, {commands = true})
