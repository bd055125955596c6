"""Executable model of the replication protocol in the source documents, checked after every step.

The model is pure and deterministic: a run is a list of actions on a `World`, chosen by a seeded clock
(`runs.timed`), by an exhaustive search (`runs.search`), or read from a list (`runs.shrinking`). Each block of
pseudo-code in "Kafka Replication Detailed Design" is one function of the same name: broker_startup,
state_change_listener, replica_state_change, close_replica, become_follower, become_leader, leader_election,
produce_request_handler, hw_checkpoint_thread, committer_thread, offset_reached, check_load_balancing,
check_reassigned_replicas, replica_fetch, replica_fetcher_thread.

"Fix:" in a docstring marks what Kafka does today instead of the documents' pseudo-code; `model.rules` lists the
fixes.
"""
