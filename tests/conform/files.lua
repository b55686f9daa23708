-- The files of this folder that hold cases.
return {"elementwise", "reduce", "activation", "iota", "matmul", "pe", "vector", "gather", "random", "gen4", "mx", "dma", "dma_transpose", "lists", "stochastic", "lanes", "indirect", "custom", "control", "cores", "collectives", "blocks", "refusals", "kernels"}
