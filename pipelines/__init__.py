"""The wiring: Beam transforms and commands around `crowdcore`."""
