-- Run once by the postgres image, as the superuser, in an empty volume. One role owns the tables
-- and rewrites them after an erasure, another runs the service; neither is a superuser, because
-- PostgreSQL lets superusers past row-level security.
\getenv owner_password OCTOPUS_OWNER_PASSWORD
\getenv app_password OCTOPUS_APP_PASSWORD
CREATE ROLE octopus_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE octopus_app LOGIN PASSWORD :'app_password';
CREATE DATABASE octopus OWNER octopus_owner ENCODING 'UTF8' TEMPLATE template0;
GRANT pg_checkpoint TO octopus_owner;
\connect octopus
GRANT EXECUTE ON FUNCTION pg_switch_wal() TO octopus_owner;
CREATE EXTENSION IF NOT EXISTS vector;
