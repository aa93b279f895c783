"""The ledger of nightly runs: labels, counts and skills kept between nights, version by version."""
