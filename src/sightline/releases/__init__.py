"""What is published: members × feature × readout, with values, Jacobians and sensitivities."""
