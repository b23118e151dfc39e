"""Recording a query of a server that runs already: found, sampled, its processes attached."""
