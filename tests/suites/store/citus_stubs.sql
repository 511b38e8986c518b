-- Stubs of the parts of Citus that the pack for Citus calls, for a server without Citus. Nothing is distributed: each node is this server.
SET allow_system_table_mods = on;
INSERT INTO pg_extension VALUES (65000, 'citus', 10, 'pg_catalog'::regnamespace, true, 'stub', NULL, NULL);
CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass);
CREATE TABLE pg_catalog.pg_dist_placement (shardid bigint, groupid integer);
CREATE TABLE pg_catalog.pg_dist_node (groupid integer, nodename text, nodeport integer, noderole text);
GRANT SELECT, INSERT ON pg_catalog.pg_dist_partition, pg_catalog.pg_dist_placement, pg_catalog.pg_dist_node TO PUBLIC;
CREATE TABLE public.distributed_functions (routine regprocedure, argument text, colocated text, is_forced boolean);
GRANT SELECT, INSERT ON public.distributed_functions TO PUBLIC;

CREATE FUNCTION pg_catalog.create_distributed_table(p_table regclass, p_column text) RETURNS void
LANGUAGE sql AS 'INSERT INTO pg_catalog.pg_dist_partition VALUES (p_table)';
CREATE FUNCTION pg_catalog.create_distributed_function(
    p_routine regprocedure, p_argument text DEFAULT NULL, colocate_with text DEFAULT NULL, force_delegation boolean DEFAULT NULL
) RETURNS void
LANGUAGE sql AS 'INSERT INTO public.distributed_functions VALUES (p_routine, p_argument, colocate_with, force_delegation)';
CREATE FUNCTION pg_catalog.get_shard_id_for_distribution_column(p_table regclass, p_value uuid) RETURNS bigint
LANGUAGE sql AS 'SELECT NULL::bigint';
