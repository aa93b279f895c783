"""What pytest leaves alone here: the DAG, which only Airflow's environment can import."""

collect_ignore = ["airflow"]
