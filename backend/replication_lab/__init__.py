"""The replication protocol of the source documents as an executable model that is checked after every step.

Pure and deterministic: a run is a list of actions on a `World`, chosen by a seeded clock (`timed`), by a search
through all of them (`search`), or read from a list (`shrinking`). Each block of pseudo-code of "Kafka
Replication Detailed Design" is one function of the same name: broker_startup, state_change_listener,
replica_state_change, close_replica, become_follower, become_leader, leader_election, produce_request_handler,
hw_checkpoint_thread, committer_thread, offset_reached, check_load_balancing, check_reassigned_replicas,
replica_fetch, replica_fetcher_thread.
"""
